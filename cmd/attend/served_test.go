package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for a server. It only ends a test that
// hangs.
const patience = 60 * time.Second

// A served is the attend serve of a script, one at a time.
type served struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited
	log  *os.File
}

type servedKey struct{}

// serverCommands are the commands of scripts that have a server.
func serverCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"serve": startServe, "signal": signalServe, "exited": exitedServe, "http": httpServe, "within": within,
		"stream": streamServe, "again": againServe, "mode": fileMode,
	}
}

func servedOf(ts *testscript.TestScript) *served { return ts.Value(servedKey{}).(*served) }

// startServe starts attend serve with ARGS, on a free port where they name no
// place, waits until it is ready, sets URL, and writes its log to serve.log.
func startServe(ts *testscript.TestScript, neg bool, args []string) {
	s := servedOf(ts)
	if neg || s.cmd != nil {
		ts.Fatalf("usage: serve ARGS, once the one before has exited")
	}
	if where := strings.Join(args, " "); !strings.Contains(where, "--port") && !strings.Contains(where, "--socket") && !strings.Contains(where, "--config") {
		args = append([]string{"--port", "0"}, args...)
	}
	program, err := exec.LookPath("attend")
	ts.Check(err)
	log, err := os.OpenFile(ts.MkAbs("serve.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	ts.Check(err)
	cmd := exec.Command(program, append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = ts.MkAbs("."), log, scriptEnv(ts)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s.mu.Lock()
	s.cmd, s.done, s.log = cmd, make(chan struct{}), log
	s.mu.Unlock()
	first := make(chan string, 1)
	go func(done chan struct{}) {
		line, _ := bufio.NewReader(out).ReadString('\n')
		first <- line
		_ = cmd.Wait() // its state says how it ended
		close(done)
	}(s.done)
	ts.Defer(s.kill)
	select {
	case line := <-first:
		fmt.Fprint(ts.Stdout(), line)
		if line == "" {
			<-s.done
			ts.Fatalf("attend serve exited with %d: %s", cmd.ProcessState.ExitCode(), ts.ReadFile("serve.log"))
		}
		fields := strings.Fields(line)
		if len(fields) > 2 {
			ts.Setenv("URL", strings.TrimSuffix(fields[2], ","))
		}
	case <-time.After(patience):
		ts.Fatalf("attend serve is not ready: %s", ts.ReadFile("serve.log"))
	}
}

// scriptEnv is what a script has set that attend looks at.
func scriptEnv(ts *testscript.TestScript) []string {
	env := []string{"GORACE=" + ts.Getenv("GORACE")}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	for _, name := range settingNames(newRoot()) {
		if v := ts.Getenv(variableOf(name)); v != "" {
			env = append(env, variableOf(name)+"="+v)
		}
	}
	return env
}

func (s *served) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have exited
	<-s.done
	s.log.Close()
	s.cmd = nil
}

// signalServe sends TERM, INT or KILL.
func signalServe(ts *testscript.TestScript, neg bool, args []string) {
	s := servedOf(ts)
	if neg || len(args) != 1 || s.cmd == nil {
		ts.Fatalf("usage: signal TERM|INT|KILL")
	}
	ts.Check(s.signal(args[0]))
}

func (s *served) signal(name string) error {
	switch name {
	case "TERM":
		return s.cmd.Process.Signal(syscall.SIGTERM)
	case "INT":
		return s.cmd.Process.Signal(os.Interrupt)
	case "KILL":
		return s.cmd.Process.Kill()
	}
	return fmt.Errorf("unknown signal %q", name)
}

// exitedServe waits until the server has exited, with CODE; -1 is a signal.
func exitedServe(ts *testscript.TestScript, neg bool, args []string) {
	s := servedOf(ts)
	if neg || len(args) != 1 || s.cmd == nil {
		ts.Fatalf("usage: exited CODE")
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		ts.Fatalf("attend serve does not exit: %s", ts.ReadFile("serve.log"))
	}
	code := s.cmd.ProcessState.ExitCode()
	s.kill()
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("attend serve exited with %d, want %s: %s", code, args[0], ts.ReadFile("serve.log"))
	}
}

// httpServe asks the server: http METHOD PATH [TOKEN [BODY]]. It prints status and
// body. A TOKEN of - is none, a BODY that begins with @ a file.
func httpServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 4 {
		ts.Fatalf("usage: http METHOD PATH [TOKEN [BODY]]")
	}
	args = append(args, make([]string, 4-len(args))...)
	body := args[3]
	if file, ok := strings.CutPrefix(body, "@"); ok {
		body = ts.ReadFile(file)
	}
	status, text, err := ask(ts.Getenv("URL"), args[0], args[1], args[2], body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d\n%s", status, text)
}

// reach is a client of a server, at an address as the ready line has it.
func reach(url string) (*http.Client, string) {
	path, ok := strings.CutPrefix(url, "unix:")
	if !ok {
		return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}, url
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}, "http://attend"
}

func ask(url, method, path, token, body string) (int, string, error) {
	c, base := reach(url)
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" && token != "-" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// within does a command of this list again and again until it prints TEXT:
// within TEXT http METHOD PATH ….
func within(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || args[1] != "http" {
		ts.Fatalf("usage: within TEXT http METHOD PATH [TOKEN [BODY]]")
	}
	rest := append(args[2:], make([]string, 6-len(args))...)
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		status, text, err := ask(ts.Getenv("URL"), rest[0], rest[1], rest[2], rest[3])
		if got := fmt.Sprintf("%d\n%s", status, text); err == nil && strings.Contains(got, args[0]) {
			fmt.Fprint(ts.Stdout(), got)
			return
		}
		if time.Since(began) > patience {
			ts.Fatalf("%v answers %d %q, %v, want %q in it", args[1:], status, text, err, args[0])
		}
	}
}

// fileMode prints the mode of FILE.
func fileMode(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(filepath.FromSlash(args[0])))
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%04o\n", info.Mode().Perm())
}
