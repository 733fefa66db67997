package engine_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// A spy is a store that takes its time, fails on demand, and remembers what it
// was asked.
type spy struct {
	attend.ScopeStore

	// How it behaves; while it is in use, changed by change alone.

	// Commit and Load sleep for so long before they do anything.
	commitTakes, loadTakes time.Duration
	// refuse fails a commit before it lands; n counts commits from 1.
	refuse func(n int, writes []attend.Write) error
	// lose fails a commit that has landed.
	lose func(n int, writes []attend.Write) error
	// lag makes writes conflict before they reach the store.
	lag func(w attend.Write) bool
	// noLoad fails a load.
	noLoad func(scope attend.Scope) error

	mu        sync.Mutex
	groups    [][]attend.Write // the commits, in order, those that failed too
	loads     []attend.Scope
	conflicts int
	flying    map[attend.Scope]int
	overlap   bool // two commits under way held the same scope
}

// change lets f set how the spy behaves from now on.
func (s *spy) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *spy) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	s.mu.Lock()
	s.groups = append(s.groups, kept(writes))
	n := len(s.groups)
	if s.flying == nil {
		s.flying = make(map[attend.Scope]int)
	}
	for _, w := range writes {
		s.flying[w.Scope]++
		s.overlap = s.overlap || s.flying[w.Scope] > 1
	}
	takes, refuse, lose, lag := s.commitTakes, s.refuse, s.lose, s.lag
	s.mu.Unlock()
	time.Sleep(takes)

	var out []attend.Outcome
	var err error
	if refuse != nil {
		err = refuse(n, writes)
	}
	if err == nil {
		out, err = s.commit(ctx, writes, lag)
	}
	if err == nil && lose != nil {
		err = lose(n, writes)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		s.flying[w.Scope]--
	}
	for _, o := range out {
		if o.Conflict() {
			s.conflicts++
		}
	}
	return out, err
}

// kept is a copy of what a store is given for the length of a call.
func kept(writes []attend.Write) []attend.Write {
	writes = slices.Clone(writes)
	for i := range writes {
		w := &writes[i]
		w.Snapshot, w.Inputs = bytes.Clone(w.Snapshot), slices.Clone(w.Inputs)
		for k := range w.Inputs {
			w.Inputs[k] = bytes.Clone(w.Inputs[k])
		}
	}
	return writes
}

// commit commits the writes that don't lag.
func (s *spy) commit(ctx context.Context, writes []attend.Write, lag func(attend.Write) bool) ([]attend.Outcome, error) {
	if lag == nil {
		return s.ScopeStore.Commit(ctx, writes)
	}
	out := make([]attend.Outcome, len(writes))
	for i, w := range writes {
		if lag(w) {
			continue
		}
		got, err := s.ScopeStore.Commit(ctx, []attend.Write{w})
		if err != nil {
			return nil, err
		}
		out[i] = got[0]
	}
	return out, nil
}

func (s *spy) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	s.mu.Lock()
	s.loads = append(s.loads, scope)
	takes, noLoad := s.loadTakes, s.noLoad
	s.mu.Unlock()
	time.Sleep(takes)
	if noLoad != nil {
		if err := noLoad(scope); err != nil {
			return attend.Record{}, err
		}
	}
	return s.ScopeStore.Load(ctx, scope)
}

func (s *spy) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return s.ScopeStore.Due(ctx, now)
}

// sizes are the numbers of writes of the commits so far.
func (s *spy) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int, len(s.groups))
	for i, g := range s.groups {
		out[i] = len(g)
	}
	return out
}

func (s *spy) commits() int { return len(s.sizes()) }

// writes are the writes of a scope, in order.
func (s *spy) writes(scope attend.Scope) []attend.Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []attend.Write
	for _, g := range s.groups {
		for _, w := range g {
			if w.Scope == scope {
				out = append(out, w)
			}
		}
	}
	return out
}

func (s *spy) loaded(scope attend.Scope) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loads {
		if l == scope {
			n++
		}
	}
	return n
}

func (s *spy) allLoads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loads)
}

func (s *spy) lostRaces() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conflicts
}

func (s *spy) overlapped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlap
}

// newEngine returns an engine that is not running.
func newEngine(t *testing.T, cfg engine.Config) *engine.Engine {
	t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkPermits(t, e, cfg.MaxCalls) })
	return e
}

// checkPermits checks at the end of a test that every permit came back.
func checkPermits(t *testing.T, e *engine.Engine, limit int) {
	t.Helper()
	if limit == 0 {
		limit = 64
	}
	if calls, sends := engine.Free(e); calls != limit || sends != limit {
		t.Errorf("free permits at the end: %d calls, %d deliveries, want %d each", calls, sends, limit)
	}
	if calls, sends := engine.InLine(e); calls != 0 || sends != 0 {
		t.Errorf("in line at the end: %d for calls, %d for deliveries, want none", calls, sends)
	}
}

// decisions are the ids and routes in the log, oldest first.
func decisions(t *testing.T, log attend.DecisionLog) (ids []attend.DecisionID) {
	t.Helper()
	for e, err := range log.Read(t.Context(), attend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

var errDown = errors.New("the store is down")

func refused(int, []attend.Write) error { return errDown }
func unreadable(attend.Scope) error     { return errDown }
func always(attend.Write) bool          { return true }
