package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// All of the end together has the time of --drain, and closing the store a second
// at the least.
func TestEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ after, want time.Duration }{
			{0, 10 * time.Second}, {7 * time.Second, 3 * time.Second}, {time.Minute, time.Second},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			e := newEnding(ctx, 10*time.Second)
			time.Sleep(time.Hour)
			cancel()
			time.Sleep(test.after)
			if got := e.left(); got != test.want {
				t.Errorf("%v after the end has begun %v are left, want %v", test.after, got, test.want)
			}
		}
		if got := newEnding(t.Context(), 10*time.Second).left(); got != 10*time.Second {
			t.Errorf("%v are left of an end that nobody asked for", got)
		}
	})
}

func TestCloseWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		began := time.Now()
		if err := closeWithin(time.Second, func() error { <-hang; return nil }); err == nil || time.Since(began) != time.Second {
			t.Errorf("closeWithin = %v after %v, want an error after 1s", err, time.Since(began))
		}
		close(hang)
		bad := errors.New("no room")
		if err := closeWithin(time.Second, func() error { return bad }); !errors.Is(err, bad) {
			t.Errorf("closeWithin = %v, want the store's error", err)
		}
	})
}

// What a server says can't move a terminal's cursor.
func TestPrintError(t *testing.T) {
	var b bytes.Buffer
	printError(&b, errors.New("it says \x1b[2J\x07\r\nand\tmore"))
	if want := "attend: it says \ufffd[2J\ufffd\ufffd\nand    more\n"; b.String() != want {
		t.Errorf("printed %q, want %q", &b, want)
	}
}
