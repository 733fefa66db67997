//go:build unix

package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// chromium starts a browser on a page; it ends with the test. It is a program
// that a machine may well be without, in CI too.
func chromium(t testing.TB, args ...string) *program {
	t.Helper()
	path := tool(t, "chromium", false)
	dir, err := os.MkdirTemp("", "c") // it leaves behind what it likes, and sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.Command(path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + filepath.Join(dir, "user"),
	}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return run(t, cmd)
}

// A site is a server of pages, with attend behind it as behind any proxy.
type site struct {
	*httptest.Server
	t      testing.TB
	behind atomic.Pointer[string] // base address of attend
	allow  atomic.Pointer[string] // the origin whose pages may read answers
	cut    atomic.Int64           // cut the stream inside the so-manyth decision; 0: never
	bad    atomic.Bool            // answer 502 where attend does not

	mu     sync.Mutex
	said   []told
	asked  []string // the Last-Event-ID of each stream
	change chan struct{}
}

// A told is what a page told its server.
type told struct {
	Event, ID, Data string
	State           int
}

func newSite(t testing.TB) *site {
	s := &site{t: t, change: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir("scripts")))
	mux.HandleFunc("POST /say", func(_ http.ResponseWriter, r *http.Request) {
		var line told
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &line)
		}
		if err != nil {
			line.Event = fmt.Sprintf("broken: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, line)
		close(s.change)
		s.change = make(chan struct{})
	})
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(*s.behind.Load())
			if err != nil {
				panic(err)
			}
			r.SetURL(to)
		},
		ModifyResponse: func(res *http.Response) error {
			if origin := s.allow.Load(); origin != nil {
				res.Header.Set("Access-Control-Allow-Origin", *origin)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			if s.bad.Load() {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			panic(http.ErrAbortHandler) // what a browser sees without a proxy
		},
	}
	mux.HandleFunc("GET /v1/decisions", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Get("Last-Event-ID"))
		s.mu.Unlock()
		proxy.ServeHTTP(&scissors{ResponseWriter: w, site: s}, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // streams do not end by themselves
		s.Close()
	})
	return s
}

// scissors cut a stream.
type scissors struct {
	http.ResponseWriter
	site *site
	seen []byte
}

// Unwrap is of [http.ResponseController].
func (w *scissors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write passes on what is before the cut, which is behind the id of a decision
// and inside its data.
func (w *scissors) Write(b []byte) (int, error) {
	before := len(w.seen)
	w.seen = append(w.seen, b...)
	n := int(w.site.cut.Load())
	if n == 0 {
		return w.ResponseWriter.Write(b)
	}
	mark := []byte("event: decision\ndata: {")
	at := 0
	for range n {
		i := bytes.Index(w.seen[at:], mark)
		if i < 0 {
			return w.ResponseWriter.Write(b)
		}
		at += i + len(mark)
	}
	_, _ = w.ResponseWriter.Write(b[:max(0, min(at-before, len(b)))])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	w.site.cut.Store(0)
	panic(http.ErrAbortHandler)
}

// hear waits until what the pages said satisfies there.
func (s *site) hear(what string, there func([]told) bool) []told {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		s.mu.Lock()
		said, change := s.said[:len(s.said):len(s.said)], s.change
		s.mu.Unlock()
		if there(said) {
			return said
		}
		select {
		case <-change:
		case <-late.C:
			s.t.Fatalf("no %s within %v; the page said %+v", what, patience, said)
		}
	}
}

// until waits for n events of a name.
func (s *site) until(name string, n int) []told {
	s.t.Helper()
	return s.hear(fmt.Sprintf("%d times %s", n, name), func(said []told) bool { return len(of(said, name)) >= n })
}

// of are the events of a name.
func of(said []told, name string) []told {
	return slices.DeleteFunc(slices.Clone(said), func(line told) bool { return line.Event != name })
}

// decisions are those that a page got.
func (s *site) decisions(said []told) []decision {
	s.t.Helper()
	var out []decision
	for _, line := range of(said, "decision") {
		var d decision
		decode(s.t, line.Data, &d)
		if d.Cursor != line.ID {
			s.t.Errorf("the id of decision %s is %q in the browser, want its cursor %q", d.ID, line.ID, d.Cursor)
		}
		out = append(out, d)
	}
	return out
}

// streams are the Last-Event-IDs that streams were asked for with.
func (s *site) streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// page is the address of a page that takes another address.
func (s *site) page(name, from string) string {
	return s.URL + "/" + name + "?from=" + url.QueryEscape(from)
}

// A browser's EventSource behind a proxy gets decisions; is cut off in the middle
// of one and comes back by itself; hears the end of its server, and goes on at
// the next one; and its page helps it over a bad gateway. It misses nothing and
// gets nothing twice.
func TestEventSource(t *testing.T) {
	t.Parallel()
	store := memory.New()
	w := start(t, setup{store: store})
	s := newSite(t)
	s.behind.Store(&w.url)
	chromium(t, s.page("page.html", "/v1/decisions?scope=ops"))
	s.until("open", 1)
	w.decide("other", 1, 1)
	w.decide("ops/db", 1, 3)
	s.until("decision", 3)

	s.cut.Store(5)
	w.decide("ops/db", 4, 5)
	s.until("error", 1)
	w.decide("ops/db", 6, 7)
	said := s.until("decision", 7)
	list := s.decisions(said)
	counted(t, "a stream that was cut", list, 1, 7)
	if got := of(said, "error"); len(got) != 1 || got[0].State != 0 {
		t.Errorf("errors = %+v, want one, after which the browser connects again", got)
	}
	if got := s.streams(); len(got) != 2 || got[0] != "" || got[1] != list[3].Cursor {
		t.Errorf("the streams' Last-Event-IDs are %q, want none and then the cursor of number 4, %q", got, list[3].Cursor)
	}

	if err := w.stop(); err != nil {
		t.Errorf("Serve = %v, want nil with a browser connected", err)
	}
	if said = s.until("end", 1); of(said, "end")[0].Data != `{"reason":"shutdown"}` {
		t.Errorf("end = %+v, want shutdown", of(said, "end"))
	}
	w = start(t, setup{store: store})
	w.decide("ops/db", 8, 9)
	s.behind.Store(&w.url)
	s.until("decision", 9)
	w.decide("ops/db", 10, 10)
	said = s.until("decision", 10)
	counted(t, "a stream over the end of its server", s.decisions(said), 1, 10)

	// A browser takes a bad gateway for the end; the page begins anew.
	s.bad.Store(true)
	before := len(of(said, "error"))
	if err := w.stop(); err != nil {
		t.Errorf("Serve = %v, want nil with a browser connected", err)
	}
	s.until("error", before+3) // the end of the stream, and two bad gateways
	w = start(t, setup{store: store})
	w.decide("ops/db", 11, 12)
	s.behind.Store(&w.url)
	said = s.until("decision", 12)
	counted(t, "a page that began anew", s.decisions(said), 1, 12)
	if got := of(said, "error")[before+1:]; got[0].State != 2 || got[1].State != 2 {
		t.Errorf("errors at a bad gateway = %+v, want state 2", got)
	}
	if n := len(of(said, "truncated")) + len(of(said, "unreadable")) + len(of(said, "message")); n != 0 {
		t.Errorf("%d events came that nobody wants: %+v", n, said)
	}
}

// A page of another origin reads decisions where the server and its proxy both
// allow it.
func TestEventSourceOfAnAllowedOrigin(t *testing.T) {
	t.Parallel()
	pages, front := newSite(t), newSite(t)
	w := start(t, setup{config: server.Config{Origins: []string{pages.URL}}})
	front.behind.Store(&w.url)
	front.allow.Store(&pages.URL)
	chromium(t, pages.page("page.html", front.URL+"/v1/decisions"))
	pages.until("open", 1)
	w.decide("ops", 1, 3)
	counted(t, "a page of an allowed origin", pages.decisions(pages.until("decision", 3)), 1, 3)
}

// V4: a page of another origin gets nothing, brings nothing, and every request
// of it is refused. No name that is made to point at the loopback helps it.
func TestForeignPage(t *testing.T) {
	t.Parallel()
	pages := newSite(t)
	w := start(t, setup{})
	w.decide("ops", 1, 1)
	chromium(t, pages.page("foreign.html", w.url))
	said := pages.until("done", 1)
	want := map[string]string{
		"stream": "closed 2", "page": "TypeError", "opaque": "", "script": "", "ingest": "", "lines": "TypeError", "beacon": "true", "mcp": "", "form": "",
		"done": "",
	}
	for _, line := range said {
		if got, ok := want[line.Event]; !ok || line.Data != got {
			t.Errorf("the page got %q by %s, want %q", line.Data, line.Event, got)
		}
		delete(want, line.Event)
	}
	if len(want) != 0 {
		t.Errorf("the page did not try %v", want)
	}
	// One request each for all but the lines, for which the browser asks first.
	log := w.log.String()
	for route, n := range map[string]int{`route="GET /v1/decisions" status=403`: 4, `route="POST /v1/ingest" status=403`: 3, `route=/mcp status=403`: 1} {
		if got := strings.Count(log, route); got != n {
			t.Errorf("the server's log has %d times %s, want %d", got, route, n)
		}
	}
	if got := strings.Count(log, "msg=request"); got != strings.Count(log, "status=403") {
		t.Errorf("of %d requests not all were refused:\n%s", got, log)
	}
	for scope := range strings.SplitSeq("page form", " ") {
		if got := status(t, w.url+"/v1/scopes/"+scope); got != http.StatusNotFound {
			t.Errorf("scope %s: status %d, want 404: nothing was taken", scope, got)
		}
	}

	// The page's own name, made to point here: by the browser it is the same origin.
	_, port, _ := strings.Cut(strings.TrimPrefix(w.url, "http://"), ":")
	b := chromium(t, "--host-resolver-rules=MAP rebound.example 127.0.0.1", "--dump-dom", "http://rebound.example:"+port+"/v1/decisions")
	b.code()
	if got := strings.Join(b.said(), "\n"); !strings.Contains(got, `"status":403`) || strings.Contains(got, "number 1") {
		t.Errorf("under another name the browser got %s, want a problem with status 403", got)
	}
	// The loopback by itself, as somebody types it in.
	b = chromium(t, "--dump-dom", w.url+"/v1/decisions")
	b.code()
	if got := strings.Join(b.said(), "\n"); !strings.Contains(got, "number 1") {
		t.Errorf("by its address the browser got %s, want decisions", got)
	}
}

// status asks for something.
func status(t testing.TB, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
