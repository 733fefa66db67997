package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/attend-go/attend/cmd/attend/internal/client"
	"github.com/attend-go/attend/core/machine"
)

// uploading is an upload of a reader, and what its server gets: a body each.
func uploading(t *testing.T, in io.Reader, answer func(n int) string) (*upload, <-chan string) {
	t.Helper()
	bodies := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		io.WriteString(w, answer(bytes.Count(b, []byte("\n"))))
	}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return newUpload(c, in, io.Discard, slog.New(slog.DiscardHandler)), bodies
}

func taken(n int) string { return fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[]}`, n) }

// Behind a pipe that says nothing for a while, whole lines go, though the next one
// has begun.
func TestUploadDoesNotWaitForHalfALine(t *testing.T) {
	in, out := io.Pipe()
	u, bodies := uploading(t, in, taken)
	done := make(chan error)
	go func() { done <- u.run(t.Context()) }()
	fmt.Fprint(out, "1\n2\n3")
	if got := <-bodies; got != "1\n2\n" {
		t.Errorf("the server gets %q, want the two lines that are there", got)
	}
	fmt.Fprint(out, "\n")
	if got := <-bodies; got != "3\n" {
		t.Errorf("the server gets %q, want the third line", got)
	}
	out.Close()
	if err := <-done; err != nil || u.accepted != 3 {
		t.Errorf("run = %v, with %d accepted", err, u.accepted)
	}
}

// A request has no more lines than a scope remembers ids: when its answer is lost,
// all of it can go again.
func TestUploadOfManyLines(t *testing.T) {
	remembered := machine.DefaultPolicy().SeenCount
	u, bodies := uploading(t, strings.NewReader(strings.Repeat("x\n", 2100)), taken)
	if err := u.run(t.Context()); err != nil || u.accepted != 2100 {
		t.Errorf("run = %v, with %d accepted, want 2100", err, u.accepted)
	}
	for len(bodies) > 0 {
		if n := strings.Count(<-bodies, "\n"); n > remembered {
			t.Errorf("a request of %d lines, and a scope remembers %d", n, remembered)
		}
	}
}

// A line has its number of the input, whichever request it is in.
func TestUploadNumbersLines(t *testing.T) {
	var said strings.Builder
	u, _ := uploading(t, strings.NewReader("\n"+strings.Repeat("x\n\n", 501)), func(n int) string {
		return fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[{"line":1,"error":"bad"}]}`, n-1)
	})
	u.log = slog.New(slog.NewTextHandler(&said, nil))
	if err := u.run(t.Context()); err != nil || u.rejected < 2 {
		t.Fatalf("run = %v, with %d rejected", err, u.rejected)
	}
	if !strings.Contains(said.String(), "line=2 ") || !strings.Contains(said.String(), "line=1002 ") {
		t.Errorf("says %s, want it of lines 2 and 1002", &said)
	}
}

// answered is an ingester with one answer.
type answered client.Receipt

func (a answered) Ingest(context.Context, []byte, func(error)) (client.Receipt, error) {
	return client.Receipt(a), nil
}

// A line that is wrong is left out. One that could not be taken, though nothing is
// wrong with it, is a failure.
func TestUploadOutcome(t *testing.T) {
	wrong, refused := client.Rejected{Line: 1, Error: "bad"}, client.Rejected{Line: 2, Error: "full", Retry: true}
	for _, test := range []struct {
		rejected     []client.Rejected
		want, strict string
	}{
		{nil, "<nil>", "<nil>"},
		{[]client.Rejected{wrong}, "<nil>", "1 line rejected"},
		{[]client.Rejected{wrong, refused}, "1 line could not be taken now", "1 line could not be taken now"},
	} {
		u := newUpload(answered{Rejected: test.rejected}, strings.NewReader("1\n2\n"), io.Discard, slog.New(slog.DiscardHandler))
		if err := u.run(t.Context()); err != nil || u.rejected != len(test.rejected) {
			t.Errorf("run = %v, with %d rejected, want %d", err, u.rejected, len(test.rejected))
		}
		if got, strict := fmt.Sprint(u.outcome(false)), fmt.Sprint(u.outcome(true)); got != test.want || strict != test.strict {
			t.Errorf("outcome = %s, with --strict %s, want %s and %s", got, strict, test.want, test.strict)
		}
	}
}

// What JSON could not hold as it is, or no header, is refused before anything is
// asked.
func TestPushRefuses(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--id", "\xff"}, "invalid --id: want valid UTF-8"},
		{[]string{"--text", "\xff"}, "invalid --text: want valid UTF-8"},
		{[]string{"--data", "\"\xff\""}, "invalid --data: want valid UTF-8"},
		{[]string{"--data", "{"}, "invalid --data: want JSON"},
		{[]string{"--token", goodToken + "\n"}, "invalid --token: want visible ASCII characters alone"},
	} {
		var out, errOut bytes.Buffer
		args := append([]string{"push", "--server", "unix:none", "--scope", "s", "--name", "n"}, test.args...)
		code := run(args, nil, &out, &errOut)
		if said := errOut.String(); code != exitUsage || !strings.Contains(said, test.want) || strings.Contains(said, goodToken) {
			t.Errorf("push %q: exit %d, says %s, want %s", test.args, code, said, test.want)
		}
	}
}
