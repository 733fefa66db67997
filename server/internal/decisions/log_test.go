package decisions_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/internal/decisions"
)

// A rig is a store whose log gets decisions by hand.
type rig struct {
	t     testing.TB
	store *memory.Store
	log   attend.DecisionLog
	n     int
}

func newRig(t testing.TB, keep attend.Retain) *rig {
	s := memory.NewWith(memory.Options{Retain: keep})
	t.Cleanup(func() { s.Close() })
	return &rig{t: t, store: s, log: s.Log()}
}

func (r *rig) feed() *decisions.Feed { return decisions.NewFeed(r.log, slog.New(slog.DiscardHandler)) }

var noon = time.UnixMilli(1_767_268_800_000)

// decide appends a decision of one event and returns its id.
func (r *rig) decide(scope attend.Scope, route attend.Route, text string) attend.DecisionID {
	r.t.Helper()
	row := r.decision(scope, route, text)
	r.rows(row)
	return row.ID
}

func (r *rig) decision(scope attend.Scope, route attend.Route, text string) attend.Row {
	r.t.Helper()
	r.n++
	w := attend.Window{
		Scope: scope, Reason: attend.ReasonFlush, Opened: noon, Settled: noon,
		Events: []attend.Event{{ID: fmt.Sprint("e", r.n), Name: "said", Text: text, Kind: attend.KindFlush, At: noon}},
	}
	d := attend.Decision{ID: attend.NewDecisionID(scope, w.Events), At: noon, Window: w, Judgment: attend.Judgment{Route: route}}
	body, err := d.MarshalJSON()
	if err != nil {
		r.t.Fatal(err)
	}
	return attend.Row{Scope: scope, ID: d.ID, Type: attend.RowDecision, At: noon, Body: body}
}

func (r *rig) rows(rows ...attend.Row) {
	r.t.Helper()
	r.n++
	w := attend.Write{Scope: attend.Scope(fmt.Sprint("rows/", r.n)), Rows: rows}
	if out, err := r.store.Commit(context.Background(), []attend.Write{w}); err != nil || out[0].Conflict() {
		r.t.Fatalf("Commit = %v, %v", out, err)
	}
}

func (r *rig) verdict(scope attend.Scope) {
	r.rows(attend.Row{Scope: scope, ID: "v", Type: attend.RowVerdict, At: noon, Body: []byte(`{}`)})
}

func (r *rig) newest() attend.LogCursor {
	b, err := r.log.Bounds(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}
}

// A spy is a log that counts and can fail.
type spy struct {
	attend.DecisionLog
	reads, waits, waiting, most atomic.Int64
	fails                       atomic.Pointer[error]
}

func (s *spy) failure() error {
	if err := s.fails.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *spy) Bounds(ctx context.Context) (attend.Bounds, error) {
	if err := s.failure(); err != nil {
		return attend.Bounds{}, err
	}
	return s.DecisionLog.Bounds(ctx)
}

func (s *spy) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	s.reads.Add(1)
	if err := s.failure(); err != nil {
		return func(yield func(attend.Entry, error) bool) { yield(attend.Entry{}, err) }
	}
	return s.DecisionLog.Read(ctx, q)
}

func (s *spy) Wait(ctx context.Context, q attend.Query) error {
	s.waits.Add(1)
	n := s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	if err := s.failure(); err != nil {
		return err
	}
	return s.DecisionLog.(attend.Waiter).Wait(ctx, q)
}

// deaf is a log that can't wait.
type deaf struct{ attend.DecisionLog }

func ids(p decisions.Page) []attend.DecisionID {
	var out []attend.DecisionID
	for _, i := range p.Items {
		out = append(out, i.Decision.ID)
	}
	return out
}

var all = []attend.Prefix{""}
