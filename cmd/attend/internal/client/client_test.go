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
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// handled answers without a network.
type handled http.HandlerFunc

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "localhost:8787", "ftp://x", "http://", "http://u:secret@x", "http://x?token=secret", "unix:", "http://\x7f"} {
		if _, err := client.New(bad, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q) = %v, want an error that does not quote it", bad, err)
		}
	}
}

// A token that no header can have is refused at once, and not quoted.
func TestNewToken(t *testing.T) {
	for _, bad := range []string{"a-token-of-tests\n", "a token of tests", "tök"} {
		if _, err := client.New("http://localhost", bad); !errors.Is(err, client.ErrToken) {
			t.Errorf("New with the token %q = %v, want ErrToken", bad, err)
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
		told := 0
		r, err := c.Ingest(t.Context(), []byte("{}\n"), func(error) { told++ })
		if told != asked-1 {
			t.Errorf("%v: told of trouble %dx in %d requests", x.statuses, told, asked)
		}
		if asked != x.asked || r.Accepted != x.accepted || len(r.Rejected) != x.rejected || (err != nil) != x.failed {
			t.Errorf("%v: %+v, %v after %d requests", x.statuses, r, err, asked)
		}
	}
	statuses, asked = []int{503, 503, 503, 503}, 0
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Ingest(ctx, []byte("{}\n"), func(error) {}); err == nil || asked != 1 {
		t.Errorf("Ingest = %v after %d requests, want the end of the context", err, asked)
	}
}

// Lines that are refused for now, and those that a server which ends has not read,
// are brought again, in their order and under their own numbers. No other line is.
func TestIngestBringsAgain(t *testing.T) {
	answers := []string{
		`{"accepted":2,"duplicates":0,"rejected":[{"line":2,"error":"id: want one"},{"line":3,"scope":"s","error":"full","retry":true},{"line":5,"error":"stopping","retry":true}]}`,
		`{"accepted":1,"duplicates":1,"rejected":[{"line":2,"error":"name: want one"},{"line":3,"error":"full","retry":true}]}`,
		`{"accepted":1,"duplicates":0,"rejected":[]}`,
	}
	var bodies []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		io.WriteString(w, answers[len(bodies)-1])
	})
	r, err := c.Ingest(t.Context(), []byte("1\n2\n3\n4\n5\n6\n7\n"), func(error) {})
	if want := []string{"1\n2\n3\n4\n5\n6\n7\n", "3\n5\n6\n7\n", "6\n"}; !slices.Equal(bodies, want) {
		t.Errorf("bodies %q, want %q", bodies, want)
	}
	want := client.Receipt{Accepted: 4, Duplicates: 1, Rejected: []client.Rejected{{Line: 2, Error: "id: want one"}, {Line: 5, Error: "name: want one"}}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("Ingest = %+v, %v, want %+v", r, err, want)
	}
}

// What is refused again and again is rejected in the end.
func TestIngestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, err := client.New("http://localhost", "")
		if err != nil {
			t.Fatal(err)
		}
		c.Through(handled(func(w http.ResponseWriter, r *http.Request) {
			taken, line := 0, 1
			if asked++; asked == 1 {
				taken, line = 1, 2
			}
			fmt.Fprintf(w, `{"accepted":%d,"duplicates":0,"rejected":[{"line":%d,"error":"full","retry":true}]}`, taken, line)
		}))
		r, err := c.Ingest(t.Context(), []byte("1\n2\n"), func(error) {})
		if err != nil || asked != 9 || r.Accepted != 1 || len(r.Rejected) != 1 || r.Rejected[0].Line != 2 || !r.Rejected[0].Retry {
			t.Errorf("Ingest = %+v, %v after %d requests, want line 2 rejected after 9", r, err, asked)
		}
	})
}

// An answer that does not account for each line is an error: nothing is lost
// without a word.
func TestIngestCounts(t *testing.T) {
	for _, answer := range []string{
		`{}`, `{"accepted":1}`, `{"accepted":3}`, `{"accepted":1,"rejected":[{"line":3,"error":"x"}]}`,
		`{"accepted":0,"rejected":[{"line":1,"error":"not read"}]}`,
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, answer) })
		if r, err := c.Ingest(t.Context(), []byte("1\n2\n"), func(error) {}); err == nil {
			t.Errorf("Ingest of 2 lines answered by %s = %+v, want an error", answer, r)
		}
	}
}

// A body that the server gave up on is an error in its words.
func TestIngestOfABodyThatIsCutOff(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusRequestTimeout)
		io.WriteString(w, `{"detail":"the body did not come in time","accepted":1,"duplicates":0,"rejected":[{"line":2,"error":"not read"}]}`)
	})
	r, err := c.Ingest(t.Context(), []byte("1\n2\n3\n"), func(error) {})
	if e, ok := errors.AsType[*client.ServerError](err); !ok || e.Detail != "the body did not come in time" || len(r.Rejected) > 0 {
		t.Errorf("Ingest = %+v, %v, want the server's own words", r, err)
	}
}

// A break before the first decision loses none: the server has said where the
// reader is.
func TestFollowKnowsItsPlace(t *testing.T) {
	parts := []string{"retry: 2000\nid: c1\n\n", ":\nid: c2\n\n", "id: c3\nevent: decision\ndata: {}\n\n"}
	var lasts []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		lasts = append(lasts, r.Header.Get("Last-Event-ID"))
		if len(parts) == 0 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, parts[0])
		parts = parts[1:]
	})
	var got []string
	_ = c.Follow(t.Context(), nil, func(m client.Message) error { // until it is refused
		got = append(got, m.ID)
		return nil
	}, func(error) {})
	if want := []string{"", "c1", "c2", "c3"}; !slices.Equal(lasts, want) || !slices.Equal(got, want[3:]) {
		t.Errorf("resumed behind %q, with messages %q, want %q and one", lasts, got, want)
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
