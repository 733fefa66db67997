package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/attend-go/attend/cmd/attend/internal/client"
)

// tailed is what attend tail prints and says of a stream.
func tailed(t *testing.T, c *tailCommand, stream string) (printed, said string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > 1 { // all was read
			cancel()
			return
		}
		if q := r.URL.Query(); q.Get("scope") != "repo" || q.Get("after") != "c0" {
			t.Errorf("asked for %v, want the scope and the cursor", q)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream)
	}))
	defer s.Close()
	cl, err := client.New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	c.scope, c.after = "repo", "c0"
	if err := interrupted(ctx, c.follow(ctx, cl, &out, &errOut)); err != nil {
		t.Errorf("follow = %v, want nothing wrong with an interrupt", err)
	}
	return out.String(), errOut.String()
}

const decisionEvent = `{"id":"d1","scope":"repo/web","at":1772438400000,"route":"queue","window":{"reason":"closing","events":[` +
	`{"id":"1","at":1772438400000,"name":"done","text":"build 7 is \u001b[31mred","kind":"closing"}],"opened":1772438400000,"settled":1772438400000},` +
	`"notice":"build 7\nAttend to this.","cursor":"c1"}`

func TestTail(t *testing.T) {
	stream := "retry: 2000\nid: c0\n\nevent: truncated\ndata: {}\n\nid: c1\nevent: decision\ndata: " + decisionEvent +
		"\n\nid: c2\nevent: unreadable\ndata: {}\n\nevent: end\ndata: {\"reason\":\"shutdown\"}\n\n"
	printed, said := tailed(t, &tailCommand{notice: true}, stream)
	_, line, _ := strings.Cut(printed, "  ") // behind the time of day
	if want := "repo/web                queue      build 7 is \\x1b[31mred\n  | build 7\n  | Attend to this.\n"; line != want {
		t.Errorf("prints %q, want %q behind the time", printed, want)
	}
	for _, want := range []string{"decisions were missed", "a decision can't be read, and is left out", "cursor=c2"} {
		if !strings.Contains(said, want) {
			t.Errorf("says %s, want %s", said, want)
		}
	}
	if printed, _ := tailed(t, &tailCommand{json: true}, stream); printed != decisionEvent+"\n" {
		t.Errorf("prints %s, want the decision as it came", printed)
	}
}
