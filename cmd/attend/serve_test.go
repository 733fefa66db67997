package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
)

// A process is an attend serve.
type process struct {
	cmd  *exec.Cmd
	url  string
	said *bytes.Buffer // its log; not before it has exited
}

// serving starts attend serve and waits until it is ready.
func serving(t *testing.T, args ...string) *process {
	t.Helper()
	program, err := exec.LookPath("attend") // testscript made it
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(program, append([]string{"serve", "--port", "0"}, args...)...), said: new(bytes.Buffer)}
	p.cmd.Stderr = p.said
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=10")
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have exited
		_ = p.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if fields := strings.Fields(line); err == nil && len(fields) > 2 {
		p.url = strings.TrimSuffix(fields[2], ",")
		return p
	}
	_ = p.cmd.Wait() // its state says how it ended
	t.Fatalf("attend serve %q: exit %d, prints %q, says %s", args, p.cmd.ProcessState.ExitCode(), line, p.said)
	return nil
}

// end sends a signal, and returns the exit code; -1 is a signal's.
func (p *process) end(t *testing.T, s os.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // only a server that hangs
	defer late.Stop()
	_ = p.cmd.Wait() // its state says how it ended
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) ingest(t *testing.T, lines, want string) {
	t.Helper()
	status, text, err := ask(p.url, "POST", "/v1/ingest", "", lines)
	if err != nil || status != 200 || !strings.Contains(text, want) {
		t.Errorf("ingest answers %d %s, %v, want %s", status, text, err, want)
	}
}

// decides waits until a text is in the decisions.
func (p *process) decides(t *testing.T, want string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		status, text, err := ask(p.url, "GET", "/v1/decisions", "", "")
		if err == nil && strings.Contains(text, want) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the decisions are %d %s, %v, want %s", status, text, err, want)
		}
	}
}

const twoLines = `{"scope":"repo","id":"1","name":"log"}
{"scope":"repo","id":"2","name":"done","text":"build 7 is green"}
`

// Through each store, what was taken is there after a restart.
func TestServeOnEachStore(t *testing.T) {
	for name, store := range map[string]func(*testing.T) []string{
		"sqlite": func(t *testing.T) []string {
			if noSQLite != "" {
				t.Skip(noSQLite)
			}
			return []string{"--store", "sqlite:" + filepath.Join(t.TempDir(), "attend.db")}
		},
		"bolt": func(t *testing.T) []string {
			return []string{"--store", "bolt:" + filepath.Join(t.TempDir(), "attend.bolt")}
		},
		"postgres": func(t *testing.T) []string {
			args := []string{"--store", private(t, "ATTEND_TEST_POSTGRES", servers.Postgres), "--store-prefix", "serve_"}
			migrated(t, args)
			return args
		},
		"redis": func(t *testing.T) []string {
			return []string{"--store", private(t, "ATTEND_TEST_REDIS", servers.Redis)} // with the default's keys
		},
	} {
		t.Run(name, func(t *testing.T) {
			place := store(t)
			args := append(slices.Clip(place), "--kinds", `{"done":"closing"}`, "--closing-grace", "10ms")
			p := serving(t, args...)
			p.ingest(t, twoLines, `"accepted":2,"duplicates":0`)
			p.decides(t, "build 7 is green")
			if code := p.end(t, syscall.SIGTERM); code != exitDone {
				t.Errorf("exit %d after SIGTERM, says %s", code, p.said)
			}
			p = serving(t, args...)
			p.ingest(t, twoLines, `"accepted":0,"duplicates":2`)
			p.decides(t, "build 7 is green")
			if name == "postgres" || name == "redis" { // as many replicas as there are share it
				q := serving(t, args...)
				p.ingest(t, `{"scope":"repo","id":"3","name":"done","text":"build 8 is red"}`, `"accepted":1`)
				q.decides(t, "build 8 is red")
				if code := q.end(t, os.Interrupt); code != exitDone {
					t.Errorf("exit %d after SIGINT, says %s", code, q.said)
				}
			}
			if code := p.end(t, syscall.SIGTERM); code != exitDone {
				t.Errorf("exit %d after SIGTERM, says %s", code, p.said)
			}
			for _, look := range [][]string{{"inspect", "repo"}, {"explain", "repo", "2"}} {
				var out, errOut bytes.Buffer
				if code := run(append(look, place...), nil, &out, &errOut); code != exitDone {
					t.Errorf("attend %s in the store: exit %d, says %s", look, code, &errOut)
				}
			}
		})
	}
}

// migrated wants serve to name attend migrate, and that to make the tables.
func migrated(t *testing.T, args []string) {
	t.Helper()
	said := failed(t, append([]string{"serve", "--port", "0", "--kinds", `{"done":"closing"}`}, args...))
	if !strings.Contains(said, "attend: run attend migrate with the same --store and --store-prefix: ") || strings.Contains(said, "@") {
		t.Errorf("serve without tables says %s", said)
	}
	for range 2 {
		var out, errOut bytes.Buffer
		if code := run(append([]string{"migrate"}, args...), nil, &out, &errOut); code != exitDone ||
			out.String() != "the tables with the prefix serve_ are up to date\n" || errOut.Len() > 0 {
			t.Fatalf("migrate: exit %d, prints %s, says %s", code, &out, &errOut)
		}
	}
	said = failed(t, append([]string{"migrate", "--grant", "no such role"}, args...))
	if !strings.Contains(said, "no such role") || strings.Count(said, "\n") != 1 {
		t.Errorf("migrate for a role that is not there says %s", said)
	}
}

// failed is what a command says that fails.
func failed(t *testing.T, args []string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := run(args, nil, &out, &errOut); code != exitFailed || out.Len() > 0 {
		t.Errorf("attend %q: exit %d, prints %s, says %s, want exit %d", args, code, &out, &errOut, exitFailed)
	}
	return errOut.String()
}

// What holds the end up is cut off after --drain: here a client that does not read
// its answer.
func TestServeCutsOffWhatDoesNotEnd(t *testing.T) {
	p := serving(t, "--kinds", `{"a":"flush"}`, "--drain", "300ms")
	for i := range 12 {
		p.ingest(t, `{"scope":"s","id":"`+strconv.Itoa(i)+`","name":"a","data":"`+strings.Repeat("x", 900_000)+`"}`, `"accepted":1`)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /v1/decisions?limit=12 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil { // it answers
		t.Fatal(err)
	}
	if code := p.end(t, syscall.SIGTERM); code != exitFailed || !strings.Contains(p.said.String(), "\nattend: server: not all ended in time") {
		t.Errorf("exit %d, says %s, want exit %d", code, p.said, exitFailed)
	}
}

// A second signal ends what the first one began.
func TestServeExitsAtASecondSignal(t *testing.T) {
	p := serving(t, "--drain", "1h", "--drain-notice", "59m")
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := unready(p.url); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, syscall.SIGTERM); code != exitFailed || !strings.Contains(p.said.String(), "a second signal: the server exits at once") {
		t.Errorf("exit %d, says %s, want exit %d", code, p.said, exitFailed)
	}
}

// A server that is asked to end while it still waits for its store ends.
func TestServeEndsBeforeItBegins(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	program, err := exec.LookPath("attend")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{said: new(bytes.Buffer)}
	p.cmd = exec.Command(program, "serve", "--port", "0", "--store", "postgres://me@"+silent.Addr().String()+"/x")
	p.cmd.Stderr = p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := silent.Accept() // it connects, and hears nothing
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if code := p.end(t, syscall.SIGTERM); code != exitDone || !strings.Contains(p.said.String(), "the server drains") {
		t.Errorf("exit %d, says %s, want exit %d", code, p.said, exitDone)
	}
}
