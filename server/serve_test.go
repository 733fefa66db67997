package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// V7: one call runs engine and handler.
func TestV7Serve(t *testing.T) {
	sink := new(attendtest.Sink)
	w := newWorld(t, engine.Config{Sink: sink}, server.Config{})
	url, stop := w.serving(t, server.Listen{})
	if !strings.HasPrefix(url, "http://127.0.0.1:") || strings.HasSuffix(url, ":0") {
		t.Errorf("the server is ready at %q, want a port of 127.0.0.1", url)
	}
	if got := get(t, http.DefaultClient, url+"/readyz"); got.status != 200 {
		t.Errorf("readiness = %d %s, want 200", got.status, got.body)
	}
	res, err := http.Post(url+"/v1/ingest", "application/x-ndjson", strings.NewReader(`{"scope":"ops","id":"1","name":"flush.x"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if res.Body.Close(); err != nil || res.StatusCode != 200 || !strings.Contains(string(b), `"accepted":1`) {
		t.Fatalf("ingest = %d %s %v, want one accepted", res.StatusCode, b, err)
	}
	for end := time.Now().Add(10 * time.Second); len(sink.Delivered()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was delivered in 10 s: the engine does not run")
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if _, err := http.Get(url + "/healthz"); err == nil {
		t.Error("the server answers after its end")
	}
	if err := w.server.Serve(t.Context(), server.Listen{}); !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("a second Serve = %v, want it refused", err)
	}
	if err := w.engine.Run(ended()); err != nil {
		t.Errorf("Run after Serve = %v: it has not ended the engine's", err)
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The end: readiness first, then what is under way, and streams are told.
func TestV7End(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	url, stop := w.serving(t, server.Listen{Notice: 300 * time.Millisecond})
	r, err := http.NewRequest("GET", url+"/v1/decisions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() {
		t.Fatal("the stream says nothing")
	}
	idle, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")) // and never asks anything
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()

	began := time.Now()
	result := make(chan error)
	go func() { result <- stop() }()
	ready := 200
	for ready == 200 {
		ready = get(t, http.DefaultClient, url+"/readyz").status
	}
	if ready != 503 {
		t.Errorf("readiness while the server ends = %d, want 503", ready)
	}
	if got := get(t, http.DefaultClient, url+"/v1/decisions"); got.status != 200 && time.Since(began) < 200*time.Millisecond {
		t.Errorf("a request within Notice = %d, want 200", got.status)
	}
	var told []string
	for lines.Scan() {
		told = append(told, lines.Text())
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "event: end") || !strings.Contains(all, "shutdown") {
		t.Errorf("the stream ended with %q, want an end event with a reason", all)
	}
	if err := <-result; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the end took %v: a connection without a request holds it up", took)
	}
}

// What does not end in time is named.
func TestV7EndOfWhatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	store := &sick{ScopeStore: memory.New()}
	w := newWorld(t, engine.Config{Store: store}, server.Config{})
	url, stop := w.serving(t, server.Listen{Drain: 200 * time.Millisecond})
	store.be(nil, hang)
	before := store.asked.Load()
	go func() {
		if res, err := http.Get(url + "/v1/decisions"); err == nil {
			_ = res.Body.Close() // it is cut
		}
	}()
	for store.asked.Load() == before {
		time.Sleep(time.Millisecond)
	}
	err := stop()
	if !errors.Is(err, server.ErrDrain) || !strings.Contains(err.Error(), "1 of GET /v1/decisions") {
		t.Errorf("Serve = %v, want ErrDrain that names the request", err)
	}
}

func TestV7EndOfAnEngineThatHangs(t *testing.T) {
	hang := make(chan struct{})
	entered := make(chan struct{})
	judge := attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
		close(entered)
		<-hang // whatever its context says
		return attend.Judgment{Route: attend.RouteQueue}, nil
	})
	w := newWorld(t, engine.Config{Judge: judge, ShutdownGrace: time.Millisecond}, server.Config{})
	_, stop := w.serving(t, server.Listen{Drain: 50 * time.Millisecond})
	if _, err := w.engine.Push(t.Context(), "ops", attend.Event{ID: "1", Name: "flush.x"}); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := stop(); !errors.Is(err, server.ErrDrain) || !strings.Contains(err.Error(), "engine") {
		t.Errorf("Serve = %v, want ErrDrain that names the engine", err)
	}
	close(hang)
}

// An engine that runs already ends Serve with its error.
func TestServeOfAnEngineThatRuns(t *testing.T) {
	runs := make(chan struct{}, 1)
	sink := attend.SinkFunc(func(context.Context, attend.Decision) error {
		runs <- struct{}{}
		return nil
	})
	w := newWorld(t, engine.Config{Sink: sink}, server.Config{})
	if _, err := w.engine.Push(t.Context(), "ops", attend.Event{ID: "1", Name: "flush"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.engine.Run(ctx) }()
	<-runs // only an engine that runs delivers
	serve, end := context.WithTimeout(t.Context(), 10*time.Second)
	defer end()
	if err := w.server.Serve(serve, server.Listen{}); !errors.Is(err, attend.ErrInvalid) || serve.Err() != nil {
		t.Errorf("Serve beside a Run = %v, want the engine's error at once", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// Until the store answers the server is not ready, but it is there.
func TestServeWaitsForTheStore(t *testing.T) {
	store := &sick{ScopeStore: memory.New()}
	store.be(errors.New("not yet"), nil)
	w := newWorld(t, engine.Config{Store: store}, server.Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error)
	go func() {
		done <- w.server.Serve(ctx, server.Listen{Listener: ln, Ready: func(url string) { ready <- url }})
	}()
	url := "http://" + ln.Addr().String()
	if got := get(t, http.DefaultClient, url+"/readyz"); got.status != 503 || !strings.Contains(got.problem(t), "starting") {
		t.Errorf("readiness = %d %s, want 503, starting", got.status, got.body)
	}
	select {
	case <-ready:
		t.Error("ready was told while the store does not answer")
	default:
	}
	store.be(nil, nil)
	select {
	case got := <-ready:
		if got != url {
			t.Errorf("ready at %q, want %q", got, url)
		}
	case <-time.After(10 * time.Second):
		t.Error("not ready in 10 s")
	}
	if got := get(t, http.DefaultClient, url+"/readyz"); got.status != 200 {
		t.Errorf("readiness = %d %s, want 200", got.status, got.body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// V8: without a token nothing but the loopback is served, unless that is said.
func TestV8ServeBeyondTheLoopback(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  server.Config
		l    server.Listen
		ok   bool
	}{
		{"open", server.Config{}, server.Listen{Host: "0.0.0.0"}, false},
		{"open, IPv6", server.Config{}, server.Listen{Host: "[::]"}, false},
		{"insecure", server.Config{}, server.Listen{Host: "0.0.0.0", Insecure: true}, true},
		{"with tokens", server.Config{Tokens: tokens(t)}, server.Listen{Host: "0.0.0.0"}, true},
		{"loopback", server.Config{}, server.Listen{Host: "localhost"}, true},
	} {
		w := newWorld(t, engine.Config{}, c.cfg)
		ctx, cancel := context.WithCancel(t.Context())
		c.l.Ready = func(url string) {
			if !strings.HasPrefix(url, "http://localhost:") && !strings.HasPrefix(url, "http://127.0.0.1:") && !strings.HasPrefix(url, "http://[::1]:") {
				t.Errorf("%s: ready at %q, want an address of this machine", c.name, url)
			}
			cancel()
		}
		if err := w.server.Serve(ctx, c.l); (err == nil) != c.ok || err != nil && !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("%s: Serve = %v, want it served: %v", c.name, err, c.ok)
		}
		cancel()
	}
}

func TestListenIsChecked(t *testing.T) {
	for field, l := range map[string]server.Listen{
		"Port": {Port: 70000}, "Notice": {Notice: -1}, "Drain": {Drain: -1},
		"HeaderTimeout": {HeaderTimeout: 2 * time.Hour}, "IdleTimeout": {IdleTimeout: -1},
		"Socket": {Socket: filepath.Join(t.TempDir(), strings.Repeat("long", 30))},
	} {
		w := newWorld(t, engine.Config{}, server.Config{})
		err := w.server.Serve(ended(), l)
		if bad, ok := errors.AsType[*attend.InvalidError](err); !ok || bad.Field != field {
			t.Errorf("Serve with a bad %s: %v, want it named", field, err)
		}
	}
}

// overSocket is a client of a unix socket.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// A socket is nobody else's, goes with its server, and a stale one is replaced.
func TestServeOnASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.sock")
	w := newWorld(t, engine.Config{}, server.Config{})
	url, stop := w.serving(t, server.Listen{Socket: path})
	if url != "unix:"+path {
		t.Errorf("ready at %q, want the socket", url)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket is %v, %v, want a socket with mode 0600", info.Mode(), err)
	}
	c := overSocket(path)
	defer c.CloseIdleConnections()
	if got := get(t, c, "http://anything/readyz"); got.status != 200 {
		t.Errorf("readiness = %d %s, want 200", got.status, got.body)
	}
	// A second server is refused, and does the first no harm.
	other := newWorld(t, engine.Config{}, server.Config{})
	if err := other.server.Serve(t.Context(), server.Listen{Socket: path}); !errors.Is(err, server.ErrInUse) {
		t.Errorf("a second Serve = %v, want ErrInUse", err)
	}
	if got := get(t, c, "http://anything/readyz"); got.status != 200 {
		t.Errorf("readiness after a second server = %d, want 200", got.status)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v, want nothing", left, err)
	}
}

// TestLeaveSocket is the process that dies and leaves its socket behind.
func TestLeaveSocket(t *testing.T) {
	path := os.Getenv("ATTEND_LEAVE_SOCKET")
	if path == "" {
		t.Skip("runs as a child of TestSocketOfADeadProcess alone")
	}
	w := newWorld(t, engine.Config{}, server.Config{})
	_ = w.server.Serve(t.Context(), server.Listen{Socket: path, Ready: func(string) { fmt.Println("ready"); _ = os.Stdout.Sync() }})
}

func TestSocketOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.sock")
	child := exec.Command(os.Args[0], "-test.run=^TestLeaveSocket$")
	child.Env = append(os.Environ(), "ATTEND_LEAVE_SOCKET="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the child left no socket: %v", err)
	}
	w := newWorld(t, engine.Config{}, server.Config{})
	_, stop := w.serving(t, server.Listen{Socket: path})
	c := overSocket(path)
	defer c.CloseIdleConnections()
	if got := get(t, c, "http://anything/readyz"); got.status != 200 {
		t.Errorf("readiness = %d %s, want 200", got.status, got.body)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// Of many that start at once on a stale socket one gets it, and keeps it.
func TestSocketRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close() // as a dead process leaves it
	const n = 8
	ready, done := make(chan int, n), make(chan error, n)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range n {
		w := newWorld(t, engine.Config{}, server.Config{Version: fmt.Sprint(i)})
		go func() {
			done <- w.server.Serve(ctx, server.Listen{Socket: path, Ready: func(string) { ready <- i }})
		}()
	}
	<-ready
	for range n - 1 {
		if err := <-done; !errors.Is(err, server.ErrInUse) {
			t.Errorf("Serve = %v, want ErrInUse: another one has the socket", err)
		}
	}
	c := overSocket(path)
	defer c.CloseIdleConnections()
	if got := get(t, c, "http://anything/healthz"); got.status != 200 {
		t.Errorf("health = %d, want 200", got.status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// What is no socket stays.
func TestSocketOverAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, engine.Config{}, server.Config{})
	if err := w.server.Serve(t.Context(), server.Listen{Socket: path}); !errors.Is(err, server.ErrInUse) {
		t.Errorf("Serve = %v, want ErrInUse", err)
	}
	if err := w.server.Serve(ended(), server.Listen{Socket: path + ".sock"}); err != nil {
		t.Errorf("Serve elsewhere = %v, want nil", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v now", b, err)
	}
}

// A server that is told to end before it has begun ends.
func TestServeThatIsOver(t *testing.T) {
	w := newWorld(t, engine.Config{}, server.Config{})
	told := false
	if err := w.server.Serve(ended(), server.Listen{Ready: func(string) { told = true }}); err != nil || told {
		t.Errorf("Serve = %v, ready told: %v, want neither", err, told)
	}
}
