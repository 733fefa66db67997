package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/client"
)

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "a-token-of-tests")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "localhost:8787", "ftp://x", "http://", "http://u:secret@x", "http://x?token=secret", "unix:", "http://\x7f"} {
		if _, err := client.New(bad, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q) = %v, want an error that does not quote it", bad, err)
		}
	}
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"path":%q}`, r.URL.Path) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	c, err := client.New("unix:"+path, "")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.Get(t.Context(), "/healthz", nil); err != nil || string(b) != `{"path":"/healthz"}` {
		t.Errorf("Get over a socket = %s, %v", b, err)
	}
}

// A redirect is not followed: the token would go along.
func TestRedirect(t *testing.T) {
	asked := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	_, err := c.Get(t.Context(), "/x", nil)
	e, ok := errors.AsType[*client.ServerError](err)
	if !ok || e.Status != http.StatusFound || asked != 1 {
		t.Errorf("Get = %v after %d requests, want the redirect as an error", err, asked)
	}
}

// What the server says is told, and what is not its form is called so.
func TestErrors(t *testing.T) {
	answer := func(w http.ResponseWriter) {}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer a-token-of-tests" {
			t.Errorf("Authorization %q", got)
		}
		answer(w)
	})
	for _, x := range []struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		{func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(403)
			io.WriteString(w, `{"detail":"not this scope"}`)
		}, "the server answers 403 Forbidden: not this scope"},
		{func(w http.ResponseWriter) { w.WriteHeader(404) }, "the server answers 404 Not Found"},
		{func(w http.ResponseWriter) { io.WriteString(w, "<html>") }, "the answer is no JSON; is this an attend server?"},
	} {
		answer = x.answer
		if _, err := c.Get(t.Context(), "/x", nil); err == nil || err.Error() != x.want {
			t.Errorf("Get = %v, want %s", err, x.want)
		}
	}
}

// A busy server is asked again when it says so; one that refuses is not.
func TestIngest(t *testing.T) {
	var statuses []int
	asked := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != "{}\n" || r.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s %q", r.Header, body)
		}
		status := statuses[asked]
		asked++
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		switch status {
		case 200:
			io.WriteString(w, `{"accepted":1,"duplicates":0,"rejected":[]}`)
		case 403:
			io.WriteString(w, `{"detail":"none of it","rejected":[{"line":1,"scope":"s","error":"not yours"}]}`)
		}
	})
	for _, x := range []struct {
		statuses []int
		asked    int
		accepted int
		rejected int
		failed   bool
	}{
		{[]int{200}, 1, 1, 0, false},
		{[]int{503, 429, 200}, 3, 1, 0, false},
		{[]int{400}, 1, 0, 0, true},
		{[]int{401}, 1, 0, 0, true},
		{[]int{403}, 1, 0, 1, false},
	} {
		statuses, asked = x.statuses, 0
		r, err := c.Ingest(t.Context(), []byte("{}\n"))
		if asked != x.asked || r.Accepted != x.accepted || len(r.Rejected) != x.rejected || (err != nil) != x.failed {
			t.Errorf("%v: %+v, %v after %d requests", x.statuses, r, err, asked)
		}
	}
	statuses, asked = []int{503, 503, 503, 503}, 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Ingest(ctx, []byte("{}\n")); err == nil || asked != 1 {
		t.Errorf("Ingest = %v after %d requests, want the end of the context", err, asked)
	}
}

// A stream that breaks goes on behind the last cursor, with nothing twice.
func TestFollow(t *testing.T) {
	parts := []string{
		"\ufeff: hello\r\n\r\nevent: decision\r\nid: c1\r\ndata: {\"n\":\r\ndata: 1}\r\n\r\nevent: decision\nid: c2\ndata: {\"n\":2}\n\nevent: decision\nid: c3\ndata: {\"n\"",
		"event: truncated\ndata: {}\n\nevent: decision\nid: c3\ndata:{\"n\":3}\n\n",
		"event: decision\nid: c4\ndata: {\"n\":4}\n\n",
	}
	var lasts []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		lasts = append(lasts, r.Header.Get("Last-Event-ID"))
		if r.URL.Query().Get("scope") != "ops" || r.Header.Get("Accept") != "text/event-stream" {
			t.Errorf("%v %v", r.URL, r.Header)
		}
		if len(parts) == 0 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, parts[0])
		parts = parts[1:]
	})
	var got []string
	breaks := 0
	err := c.Follow(t.Context(), url.Values{"scope": {"ops"}}, func(m client.Message) error {
		got = append(got, fmt.Sprintf("%s %s %s", m.Type, m.ID, m.Data))
		return nil
	}, func(error) { breaks++ })
	want := []string{"decision c1 {\"n\":\n1}", `decision c2 {"n":2}`, "truncated  {}", `decision c3 {"n":3}`, `decision c4 {"n":4}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if e, ok := errors.AsType[*client.ServerError](err); !ok || e.Status != 403 || breaks != 3 {
		t.Errorf("Follow = %v after %d breaks, want the refusal after 3", err, breaks)
	}
	if want := []string{"", "c2", "c3", "c4"}; !slices.Equal(lasts, want) {
		t.Errorf("resumed behind %q, want %q", lasts, want)
	}
}

// What take says ends it at once.
func TestFollowStops(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\ndata: 2\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	stop := errors.New("enough")
	n := 0
	err := c.Follow(t.Context(), nil, func(client.Message) error { n++; return stop }, func(error) { t.Error("a break") })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("Follow = %v after %d messages", err, n)
	}
}
