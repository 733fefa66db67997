package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// killServe is the variable that makes a test process a server of a [killFile]:
// its address, its file and its fault.
const killServe = "ATTEND_TEST_KILL_SERVER"

func TestMain(m *testing.M) {
	if what, ok := os.LookupEnv(killServe); ok {
		fmt.Fprintln(os.Stderr, serveKillFile(strings.Split(what, "\n")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveKillFile answers calls until its standard input ends.
func serveKillFile(what []string) error {
	s, err := openKillFile(what[1], what[2])
	if err != nil {
		return err
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Store", &KillService{s}); err != nil {
		return err
	}
	l, err := net.Listen("tcp", what[0])
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go server.Accept(l)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A KillService is a killFile as net/rpc wants it.
type KillService struct{ s *killFile }

type KillNone struct{}

func (k *KillService) Load(scope attend.Scope, out *attend.Record) (err error) {
	*out, err = k.s.Load(context.Background(), scope)
	return err
}

func (k *KillService) Commit(w []attend.Write, out *[]attend.Outcome) (err error) {
	*out, err = k.s.Commit(context.Background(), w)
	return err
}

func (k *KillService) Due(now time.Time, out *[]attend.Scope) error {
	for scope := range k.s.Due(context.Background(), now) {
		*out = append(*out, scope)
	}
	return nil
}

func (k *KillService) Bounds(_ KillNone, out *attend.Bounds) (err error) {
	*out, err = k.s.Bounds(context.Background())
	return err
}

// A KillPage is some rows, or where to go on.
type KillPage struct {
	Entries []attend.Entry
	Oldest  *attend.LogCursor
}

func (k *KillService) Read(q attend.Query, out *KillPage) error {
	for e, err := range k.s.Read(context.Background(), q) {
		if t, ok := errors.AsType[*attend.TruncatedError](err); ok {
			out.Oldest = &t.Oldest
			return nil
		}
		if out.Entries = append(out.Entries, e); len(out.Entries) == 500 {
			break
		}
	}
	return nil
}

func (k *KillService) Find(id attend.DecisionID, out *attend.Entry) (err error) {
	*out, err = k.s.Find(context.Background(), id, decision)
	return err
}

// A killServer is a server in a process of its own.
type killServer struct {
	address, file, fault string
	cmd                  *exec.Cmd
}

func newKillServer(t testing.TB, fault string) *killServer {
	s := &killServer{address: "127.0.0.1:0", file: filepath.Join(t.TempDir(), "store"), fault: fault}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill() })
	return s
}

func (s *killServer) Kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
	return err
}

func (s *killServer) Restart(context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killServe+"="+strings.Join([]string{s.address, s.file, s.fault}, "\n"))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	s.address = strings.TrimSpace(line)
	return err
}

// A killClient is the store as the server's clients have it. Its log is polled.
type killClient struct {
	address string
	mu      sync.Mutex
	conn    *rpc.Client
}

// ask returns the answer to a call, or an error where it may still come.
func ask[T any](ctx context.Context, c *killClient, method string, in any) (T, error) {
	out := new(T)
	if err := c.call(ctx, method, in, out); err != nil {
		return *new(T), err
	}
	return *out, nil
}

func (c *killClient) call(ctx context.Context, method string, in, out any) error {
	c.mu.Lock()
	conn := c.conn
	if conn == nil {
		raw, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			c.mu.Unlock()
			return err
		}
		conn = rpc.NewClient(raw)
		c.conn = conn
	}
	c.mu.Unlock()
	select {
	case call := <-conn.Go("Store."+method, in, out, make(chan *rpc.Call, 1)).Done:
		if _, ok := errors.AsType[rpc.ServerError](call.Error); call.Error != nil && !ok {
			c.drop(conn)
		}
		return call.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *killClient) drop(conn *rpc.Client) {
	conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
	}
}

func (c *killClient) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

func (c *killClient) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	return ask[attend.Record](ctx, c, "Load", scope)
}

func (c *killClient) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	return ask[[]attend.Outcome](ctx, c, "Commit", w)
}

func (c *killClient) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		out, err := ask[[]attend.Scope](ctx, c, "Due", now)
		for _, scope := range out {
			if !yield(scope, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (c *killClient) Remove(context.Context, attend.Scope) error { return errors.ErrUnsupported }

func (c *killClient) Log() attend.DecisionLog { return c }

func (c *killClient) Bounds(ctx context.Context) (attend.Bounds, error) {
	return ask[attend.Bounds](ctx, c, "Bounds", KillNone{})
}

func (c *killClient) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		for {
			page, err := ask[KillPage](ctx, c, "Read", q)
			if page.Oldest != nil {
				err = &attend.TruncatedError{Oldest: *page.Oldest}
			}
			if err != nil {
				yield(attend.Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
				q.After = e.Cursor
			}
			if len(page.Entries) == 0 {
				return
			}
		}
	}
}

func (c *killClient) Find(ctx context.Context, id attend.DecisionID, _ attend.RowType) (attend.Entry, error) {
	return ask[attend.Entry](ctx, c, "Find", id)
}

func (c *killClient) Trim(context.Context, attend.Retain, time.Time) error {
	return errors.ErrUnsupported
}
