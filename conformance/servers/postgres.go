package servers

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// StartPostgres starts a PostgreSQL server and returns when it answers. Its
// superuser and its database are named attend. It is the newest one that is
// installed, but one on the PATH comes first, and that of ATTEND_POSTGRES_BIN
// before all; where there is none the error is [ErrMissing]. Other errors hold
// the end of the server's log. ctx bounds the start alone.
func StartPostgres(ctx context.Context, c Config) (*Server, error) {
	k, err := newPostgres(c)
	if err != nil {
		return nil, err
	}
	return start(ctx, c, k, freePort)
}

type postgres struct {
	bin      string // folder of its programs
	settings string // lines of postgresql.conf
}

func newPostgres(c Config) (kind, error) {
	bin, err := postgresBin(
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	)
	if err != nil {
		return nil, err
	}
	settings, err := postgresConf(c.Settings)
	if err != nil {
		return nil, fmt.Errorf("servers: PostgreSQL: %w", err)
	}
	return &postgres{bin, settings}, nil
}

func (*postgres) name() string    { return "PostgreSQL" }
func (*postgres) users() []string { return []string{"postgres", "nobody"} }

// postgresBin finds the folder that has all programs: the one that the
// environment names, that of the one on the PATH, which may be a link, or else
// the newest of the patterns' folders.
func postgresBin(patterns ...string) (string, error) {
	if dir, err := named("ATTEND_POSTGRES_BIN", "postgres", "initdb"); dir != "" || err != nil {
		return dir, err
	}
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.SortFunc(found, func(a, b string) int { return -cmp.Compare(major(a), major(b)) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if isProgram(filepath.Join(dir, "postgres")) && isProgram(filepath.Join(dir, "initdb")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: there is no postgres with its initdb on the PATH or below /usr/lib/postgresql", ErrMissing)
}

// major is the first number in the folder's path.
func major(dir string) int {
	n, err := strconv.Atoi(regexp.MustCompile(`[0-9]+`).FindString(dir))
	if err != nil {
		return 0
	}
	return n
}

// postgresConf writes settings as lines of postgresql.conf.
func postgresConf(settings map[string]string) (string, error) {
	defaults := map[string]string{
		"min_wal_size": "32MB",
		"max_wal_size": "512MB",
	}
	own := []string{
		"port", "listen_addresses", "unix_socket_directories", "data_directory", "hba_file", "ident_file", "config_file",
		"external_pid_file", "logging_collector", "log_destination", "password_encryption", "ssl", "include", "include_dir", "include_if_exists",
	}
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
	quote := strings.NewReplacer(`\`, `\\`, "'", "''", "\n", `\n`, "\r", `\r`)
	return conf(defaults, own, name, settings, func(k, v string) string { return k + " = '" + quote.Replace(v) + "'" })
}

// prepare makes the cluster and the database where there is none, and writes
// the settings that depend on the port.
func (p *postgres) prepare(ctx context.Context, s *Server) error {
	data := s.data()
	done := filepath.Join(data, "attend-is-set-up")
	b, err := os.ReadFile(done)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(b) > 0: // the password of who made the data
		s.password = string(b)
	default: // there is none, or its making ended before the password was written
		if err := p.initialize(ctx, s); err != nil {
			return err
		}
		if err := s.write(done, s.password); err != nil {
			return err
		}
	}
	conf := fmt.Sprintf("listen_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = '.'\npassword_encryption = 'scram-sha-256'\n", s.port)
	return s.write(filepath.Join(data, "attend.conf"), conf+p.settings)
}

func (p *postgres) initialize(ctx context.Context, s *Server) error {
	data := s.data()
	if err := os.RemoveAll(data); err != nil { // one that was not finished
		return err
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := s.as.own(data); err != nil {
		return err
	}
	secret := filepath.Join(s.dir, "password")
	if err := s.write(secret, s.password+"\n"); err != nil {
		return err
	}
	initdb := p.program(s, "initdb", "--pgdata="+data, "--username=attend", "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	if err := errors.Join(s.tool(ctx, initdb), os.Remove(secret)); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, "\ninclude 'attend.conf'\n")
	if err := errors.Join(err, f.Close(), s.write(filepath.Join(data, "attend.conf"), "")); err != nil {
		return err
	}
	create := p.program(s, "postgres", "--single", "-D", data, "postgres")
	create.Stdin = strings.NewReader("CREATE DATABASE attend\n")
	return s.tool(ctx, create)
}

func (p *postgres) program(s *Server, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = s.data()
	return cmd
}

func (p *postgres) command(s *Server) *exec.Cmd { return p.program(s, "postgres", "-D", s.data()) }

// ready asks the lock file, which says whose server it is and how far it came,
// and then the server.
func (p *postgres) ready(ctx context.Context, s *Server) (bool, error) {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[0]) != strconv.Itoa(s.proc.pid()) || strings.TrimSpace(lines[7]) != "ready" {
		return false, nil
	}
	return asksForPassword(ctx, s.port), nil
}

// asksForPassword reports whether the server takes connections: it then asks
// who we are, and answers with an error until it does.
func asksForPassword(ctx context.Context, port int) bool {
	c, err := dial(ctx, port)
	if err != nil {
		return false
	}
	defer c.Close()
	body := append(binary.BigEndian.AppendUint32(nil, 3<<16), "user\x00attend\x00database\x00attend\x00\x00"...)
	hello := append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
	if _, err := c.Write(hello); err != nil {
		return false
	}
	var answer [1]byte
	_, err = io.ReadFull(c, answer[:])
	return err == nil && answer[0] == 'R'
}

func (*postgres) taken(log string) bool {
	return strings.Contains(log, "Address already in use") || strings.Contains(log, "could not create any TCP/IP sockets")
}

func (*postgres) end(p *process) error { return p.interrupt() }

// clean frees the shared memory of a server that was killed, as its next start
// would have done.
func (p *postgres) clean(s *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	cmd := p.program(s, "postgres", "--single", "-D", s.data(), "postgres")
	// What can't be freed is some bytes, and the folder goes in any case.
	_ = s.tool(ctx, cmd)
}

func (*postgres) url(s *Server) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("attend", s.password), Host: address(s.port), Path: "/attend", RawQuery: "sslmode=disable"}
	return u.String()
}
