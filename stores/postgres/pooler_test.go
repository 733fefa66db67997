package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// newPooler starts pgbouncer in transaction mode in front of a server, with few
// connections to it, and returns the server's URL with the pooler in its place.
func newPooler(t testing.TB, server string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("pgbouncer is not installed")
		}
		t.Skip("pgbouncer is not installed")
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "attend-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	secret, _ := u.User.Password()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	users := write("users", fmt.Sprintf("%q %q\n", u.User.Username(), secret))
	ini := write("ini", fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
server_reset_query =
`, u.Hostname(), u.Port(), port, users))
	cmd := exec.Command(program, ini)
	cmd.Dir = dir
	if os.Getuid() == 0 { // which it refuses to run as
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: nobody(t)}
	}
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		cmd.Wait()
		out.Close()
	})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), u.String()+"&default_query_exec_mode=exec")
		if err == nil {
			conn.Close(context.Background())
			return u.String()
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(out.Name())
			t.Fatalf("the pooler does not answer: %v\n%s", err, strings.ReplaceAll(string(said), secret, "…"))
		}
	}
}

func nobody(t testing.TB) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Behind a pooler in transaction mode each statement may come to another session
// of the server. Notifications go past it.
func TestBehindAPooler(t *testing.T) {
	server := serverURL(t)
	through := newPooler(t, server)
	direct := newPool(t, server)
	on := func(mode string) *factory {
		f := newFactory(t, through+"&pool_max_conns=20&default_query_exec_mode="+mode, postgres.Config{Listen: server, Poll: time.Minute})
		f.admin = direct
		return f
	}
	t.Run("exec", func(t *testing.T) {
		f := on("exec")
		conformance.Scope(t, f.store())
		conformance.Log(t, f.store())
		conformance.Concurrent(t, f.store())
		conformance.EventLog(t, f.events())
	})
	// The other modes differ in how arguments and answers are coded.
	t.Run("cache_describe", func(t *testing.T) {
		conformance.Scope(t, on("cache_describe").store())
	})
	t.Run("simple_protocol", func(t *testing.T) {
		conformance.Scope(t, on("simple_protocol").store())
		conformance.EventLog(t, on("simple_protocol").events())
	})
}

// The isolation level that a statement brings is its own, and not of the session
// that others use after it.
func TestPoolerKeepsNothing(t *testing.T) {
	base := newDatabase(t, "")
	admin := newPool(t, base)
	if _, err := admin.Exec(t.Context(), "ALTER DATABASE "+admin.Config().ConnConfig.Database+" SET default_transaction_isolation = 'serializable'"); err != nil {
		t.Fatal(err)
	}
	through := newPooler(t, base) + "&default_query_exec_mode=exec"
	pool := newPool(t, through)
	f := newFactory(t, through, postgres.Config{})
	conformance.Concurrent(t, f.store())
	for range 20 {
		var level, sync string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')").Scan(&level, &sync); err != nil {
			t.Fatal(err)
		}
		if level != "serializable" || sync != "on" {
			t.Errorf("a session behind the pooler has isolation %s and synchronous_commit %s, want its own", level, sync)
		}
	}
	var locks int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&locks); err != nil || locks > 0 {
		t.Errorf("%d advisory locks are left, %v", locks, err)
	}
	s := storeOn(t, pool, migrated(t, admin, postgres.Config{}))
	put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
}
