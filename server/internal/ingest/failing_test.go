package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/internal/ingest"
)

// A counter counts bytes that are written to it.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func (c *counter) load() int64 { return c.n.Load() }

func sleep() { time.Sleep(5 * time.Millisecond) }

// A body that ends before its time: what came is committed and counted, the
// line that was cut is not taken for one.
func TestBodyEndsEarly(t *testing.T) {
	e := newEngine(t, engineConfig())
	in := newIngest(t, ingest.Config{Engine: e})
	cut := strings.TrimSuffix(line("a", 3), "\n")
	a := post(t, in.Bodies(), io.MultiReader(strings.NewReader(line("a", 1)+line("a", 2)+cut), iotest.ErrReader(errors.New("a secret of the network"))))
	if a.status != 400 || a.Accepted != 2 || len(a.Rejected) != 1 || a.Rejected[0].Line != 3 || a.Detail != "the body ended early" || strings.Contains(a.text, "secret") {
		t.Errorf("%v, want 400 and two lines taken", a)
	}
	if ids := held(t, e, "a"); len(ids) != 2 {
		t.Errorf("the scope holds %q, want two events", ids)
	}
}

// V1: when the store fails in the middle, what was taken is told in a 200, what
// wasn't is rejected, and nobody waits for the store again and again.
func TestStoreFailsInTheMiddle(t *testing.T) {
	var down atomic.Bool
	cfg := engineConfig()
	cfg.Store = downStore{memory.New(), func(attend.Scope) bool { return down.Load() }}
	w := &watched{Engine: newEngine(t, cfg)}
	groups := 0
	w.before = func([]engine.ScopePush) {
		if groups++; groups > 1 {
			down.Store(true)
		}
	}
	in := newIngest(t, ingest.Config{Engine: w})
	const n = 9_000
	var b strings.Builder
	for i := range n {
		b.WriteString(line(fmt.Sprint("s-", i), i)) // each loads a scope of its own
	}
	a := post(t, in.Bodies(), strings.NewReader(b.String()))
	first := 0
	for _, p := range w.lists[0] {
		first += len(p.Events)
	}
	if a.status != 200 || a.Accepted != first || a.Accepted == 0 {
		t.Errorf("%d, %d accepted, want a 200 with the %d of the first group", a.status, a.Accepted, first)
	}
	if r := a.Rejected[0]; r.Line != first+1 || !r.Retry || r.Error != "the store does not answer" {
		t.Errorf("first rejection %+v, want line %d, for another time", r, first+1)
	}
	if groups > 2 {
		t.Errorf("%d groups were tried, want no more after the one that failed", groups)
	}
	if a := post(t, in.Bodies(), strings.NewReader(line("new", 1)+line("new", 2))); a.status != 503 || a.Accepted != 0 {
		t.Errorf("%v, want 503 when nothing was taken", a)
	}
}

// Lines don't overtake those of their scope that are to be sent again.
func TestRefusedScopesAreNotOvertaken(t *testing.T) {
	e := newEngine(t, engineConfig())
	w := &watched{Engine: e}
	refuse := true
	w.before = func(list []engine.ScopePush) {
		for i := range list {
			if list[i].Scope == "a" && refuse {
				list[i].Scope = "" // an engine that refuses, once
				refuse = false
			}
		}
	}
	full := &refusing{w}
	in := newIngest(t, ingest.Config{Engine: full})
	var b strings.Builder
	const n = 5_000
	for i := range n {
		b.WriteString(line(string("ab"[i%2]), i))
	}
	a := post(t, in.Bodies(), strings.NewReader(b.String()))
	if got := len(held(t, e, "a")); got != 0 {
		t.Errorf("%d lines of a overtook those that were refused", got)
	}
	if got := len(held(t, e, "b")); got != n/2 || a.Accepted != n/2 {
		t.Errorf("%d lines of b, %d accepted, want %d", got, a.Accepted, n/2)
	}
	if r := a.Rejected[0]; r.Line != 1 || r.Scope != "a" || !r.Retry {
		t.Errorf("first rejection %+v, want line 1 of a", r)
	}
}

// A refusing engine says that a lane is full where a push has lost its scope.
type refusing struct{ *watched }

func (r *refusing) PushAll(ctx context.Context, list []engine.ScopePush) {
	r.watched.PushAll(ctx, list)
	for i := range list {
		if list[i].Scope == "" {
			list[i].Scope, list[i].Err = "a", attend.ErrOutboxFull
		}
	}
}

// A scope that a newer release wrote fails alone: other scopes are tried on.
func TestNewerScopeFailsAlone(t *testing.T) {
	for _, err := range []error{attend.ErrNewer, attend.ErrCorrupt} {
		e := newEngine(t, engineConfig())
		in := newIngest(t, ingest.Config{Engine: failingFirst{e, err}})
		var b strings.Builder
		const n = 2_000
		for i := range n { // in more than one group: the first has one scope, which fails
			b.WriteString(line(map[bool]string{true: "old", false: "new"}[i < 600], i))
		}
		if a := post(t, in.Bodies(), strings.NewReader(b.String())); a.status != 200 || a.Accepted != n-600 || a.RejectedMore != 0 || len(a.Rejected) != 600 || !a.Rejected[0].Retry {
			t.Errorf("%v: %d, %d accepted, %d rejected; want the 600 lines of one scope rejected", err, a.status, a.Accepted, len(a.Rejected))
		}
		if a := post(t, in.Bodies(), strings.NewReader(line("old", 1))); a.status != 503 {
			t.Errorf("%v: %v, want 503", err, a)
		}
	}
}

// A failingFirst engine has an error for the scope "old".
type failingFirst struct {
	*engine.Engine
	err error
}

func (f failingFirst) PushAll(ctx context.Context, list []engine.ScopePush) {
	for i := range list {
		if list[i].Scope == "old" {
			list[i].Err = f.err
			continue
		}
		f.Engine.PushAll(ctx, list[i:i+1])
	}
}
