package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// recording is n events over some scopes, one each second.
func recording(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"scope":"s%d","id":"%d","at":%d,"name":"done","text":"number %d"}`+"\n", i%7, i, 1772438400000+1000*i, i)
	}
	return b.String()
}

var doneKinds = []string{"--kinds", `{"done":"closing"}`}

func replayed(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append(append([]string{"replay"}, doneKinds...), append(args, "-")...)
	if code := run(args, in, &out, &errOut); code != exitDone || errOut.Len() > 0 {
		t.Fatalf("attend %q: exit %d, says %s", args, code, &errOut)
	}
	return out.String()
}

// How the input comes, in large pieces or small ones, shows in nothing.
func TestReplayIsTheSameEachTime(t *testing.T) {
	for _, args := range [][]string{nil, {"--json"}} {
		want := replayed(t, strings.NewReader(recording(500)), args...)
		for name, in := range map[string]io.Reader{
			"again":          strings.NewReader(recording(500)),
			"byte by byte":   iotest.OneByteReader(strings.NewReader(recording(500))),
			"without an end": strings.NewReader(strings.TrimSuffix(recording(500), "\n")),
		} {
			if got := replayed(t, in, args...); got != want {
				t.Errorf("replay %v, %s: other bytes", args, name)
			}
		}
		if n := strings.Count(want, "decision"); n < 500 {
			t.Errorf("replay %v: %d decisions, want 500 at least", args, n)
		}
	}
}

// What is known of a recording is shown before more of it comes.
func TestReplayShowsBeforeItWaits(t *testing.T) {
	in, feed := io.Pipe()
	shown, out := io.Pipe()
	code := make(chan int)
	go func() {
		c := run(append([]string{"replay", "-"}, doneKinds...), in, out, io.Discard)
		out.Close()
		code <- c
	}()
	go io.WriteString(feed, recording(2)) // the second event comes after the first has settled
	first := make([]byte, len("2026-03-02 UTC\n08:00:00 "))
	if _, err := io.ReadFull(shown, first); err != nil || !strings.HasSuffix(string(first), "08:00:00 ") {
		t.Errorf("shown while it waits: %q, %v, want the first settle", first, err)
	}
	feed.Close()
	if _, err := io.Copy(io.Discard, shown); err != nil {
		t.Error(err)
	}
	if c := <-code; c != exitDone {
		t.Errorf("exit %d, want %d", c, exitDone)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestReplayFails(t *testing.T) {
	for _, test := range []struct {
		name string
		in   io.Reader
		out  io.Writer
		want string
	}{
		{"standard output is full", strings.NewReader(recording(1)), full{}, "attend: the disk is full\n"},
		{"standard output is full early", strings.NewReader(recording(10_000)), full{}, "attend: the disk is full\n"},
		{"standard input breaks", io.MultiReader(strings.NewReader(recording(2)), iotest.ErrReader(errors.New("broken"))), io.Discard, "attend: broken\n"},
	} {
		var errOut bytes.Buffer
		if code := run(append([]string{"replay", "-"}, doneKinds...), test.in, test.out, &errOut); code != exitFailed || errOut.String() != test.want {
			t.Errorf("%s: exit %d, says %q, want %d and %q", test.name, code, &errOut, exitFailed, test.want)
		}
	}
}
