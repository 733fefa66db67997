//go:build unix

package interop_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/stores/bolt"
)

// childEnv is the store's file of the process that runs [TestChild], and portEnv
// its port.
const (
	childEnv = "ATTEND_SERVER_INTEROP_CHILD"
	portEnv  = "ATTEND_SERVER_INTEROP_PORT"
)

// TestChild is a server in a process of its own, on bbolt, that ends at SIGTERM.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("this test is a part of others")
	}
	if err := child(os.Getenv(childEnv), os.Getenv(portEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	os.Exit(0) // before the test says so on stdout
}

func child(file, port string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	store, err := bolt.Open(ctx, file, bolt.Config{})
	if err != nil {
		return err
	}
	_, s, err := compose(store, server.Config{Logger: slog.New(slog.DiscardHandler)}, server.NewMetrics("test"))
	if err != nil {
		return err
	}
	err = s.Serve(ctx, server.Listen{Port: n, Ready: func(url string) { fmt.Println("ready", url) }})
	if err != nil {
		return err
	}
	return store.Close()
}

// startChild starts a server in a process of its own and returns its address.
func startChild(t testing.TB, file string, port int) (*program, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+file, portEnv+"="+strconv.Itoa(port))
	p := run(t, cmd)
	line := p.await("ready", func(l string) bool { return strings.HasPrefix(l, "ready ") })
	return p, strings.TrimPrefix(line, "ready ")
}

// freePort is one that nobody listens on now.
func freePort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// A server that ends, or is killed, under a curl that brings events and one that
// reads decisions: what was answered is there, and who comes again misses nothing.
func TestCurlOverTheEndOfAServer(t *testing.T) {
	t.Parallel()
	const most, acked = 2000, 200
	for name, s := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, port := filepath.Join(t.TempDir(), "attend.db"), freePort(t)
			srv, url := startChild(t, file, port)
			accept := "Accept: text/event-stream"
			reader := follow(t, "-H", accept, url+"/v1/decisions")
			for { // until it is seen, and so begins in front of the first line
				if n, _ := readMetric(t, url, `attend_subscribers{transport="sse"}`, ""); n == 1 {
					break
				}
			}
			sender := follow(t, "-X", "POST", "-H", linesType, "-T", ".", url+"/v1/ingest/stream")
			var lines []string
			for n := 1; n <= most; n++ {
				lines = append(lines, fmt.Sprintf(`{"scope":"ops/%d","id":"1","name":"flush.now"}`, n))
			}
			go func() { // it is ended by the pipe's, with the server
				for n, l := range lines {
					if n > acked { // so that the end comes in the middle
						time.Sleep(time.Millisecond)
					}
					if _, err := sender.in.WriteString(l + "\n"); err != nil {
						return
					}
				}
			}()
			sender.await("some answers", func(l string) bool { return l == fmt.Sprintf(`{"line":%d,"ok":true}`, acked) })
			srv.signal(s)
			sent, read, ended := sender.code(), reader.code(), srv.code()
			answers := 0
			for _, l := range sender.said() {
				if strings.HasSuffix(l, `,"ok":true}`) {
					answers++
				}
			}
			got := parse(strings.Join(reader.said(), "\n"))
			had := got.decisions(t)
			last := sender.said()[len(sender.said())-1]
			if s == syscall.SIGTERM {
				if ended != 0 || read != 0 || got.end() != `{"reason":"shutdown"}` {
					t.Errorf("exit codes: server %d, reader %d, which heard the end %s; want 0, 0 and shutdown", ended, read, got.end())
				}
				if !strings.HasPrefix(last, fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":0`, answers)) {
					t.Errorf("the sender's last line is %s, exit code %d; want totals of %d", last, sent, answers)
				}
			} else if sent == 0 || read == 0 {
				t.Errorf("exit codes of curl: sender %d, reader %d; want failures", sent, read)
			}
			if answers < acked || answers == most {
				t.Fatalf("%d lines of %d were answered, want %d at the least, and not all", answers, most, acked)
			}

			// One that comes while nobody is there waits for the next server.
			late := follow(t, "--retry", "100", "--retry-connrefused", "--retry-delay", "1", "-H", linesType, "-d", lines[most-1], url+"/v1/ingest")
			srv, url = startChild(t, file, port)
			if code := late.code(); code != 0 || !strings.Contains(strings.Join(late.said(), ""), `"accepted":1,`) {
				t.Errorf("curl --retry: exit code %d, %s", code, late.tail())
			}
			body := strings.Join(lines[:answers], "\n")
			if answer := curl(t, body, "-H", linesType, "--data-binary", "@-", url+"/v1/ingest"); !strings.Contains(answer.body, fmt.Sprintf(`{"accepted":0,"duplicates":%d,`, answers)) {
				t.Errorf("what was answered is sent again: %+v, want %d duplicates", answer, answers)
			}
			var page struct {
				Decisions []decision
			}
			decode(t, curl(t, "", "-G", url+"/v1/decisions", "--data-urlencode", "after="+got.id(), "-d", "limit=1000").body, &page)
			times := map[string]int{}
			for _, d := range slices.Concat(had, page.Decisions) {
				times[d.Scope]++
			}
			for n := 1; n <= answers; n++ {
				if scope := fmt.Sprint("ops/", n); times[scope] != 1 {
					t.Fatalf("decision about line %d of %d answered came %d times in a stream of %d and %d behind its last id, want once", n, answers, times[scope], len(had), len(page.Decisions))
				}
			}
			srv.signal(syscall.SIGTERM)
			if code := srv.code(); code != 0 {
				t.Errorf("the exit code of the next server is %d, want 0", code)
			}
		})
	}
}
