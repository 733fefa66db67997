package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

func mustOpen(t testing.TB, b *backend, budget int) *store {
	t.Helper()
	s, err := open(b, budget)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add commits an input of n bytes to each scope, at the version that Load
// shows.
func add(t testing.TB, s *store, n int, scopes ...attend.Scope) {
	t.Helper()
	var writes []attend.Write
	for _, scope := range scopes {
		rec, err := s.Load(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, attend.Write{Scope: scope, Expect: rec.Version, Inputs: [][]byte{make([]byte, n)}, Due: time.UnixMilli(5)})
	}
	out, err := s.Commit(t.Context(), writes)
	if err != nil || slices.ContainsFunc(out, attend.Outcome.Conflict) {
		t.Fatalf("Commit = %v, %v", out, err)
	}
}

func tailOf(t testing.TB, s *store, scope attend.Scope) int {
	t.Helper()
	rec, err := s.Load(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return len(rec.Tail)
}

// Commits go on while scopes wait to be folded, and what waits stays near the
// budget; each folds a few scopes, and one that is huge in its turn.
func TestBudget(t *testing.T) {
	const budget = 100_000
	b := newBackend()
	s := mustOpen(t, b, budget)
	steady, folds := 0, 0 // at most with one commit, and with all
	for i := range 2000 {
		var scopes []attend.Scope
		for k := range 8 {
			scopes = append(scopes, attend.Scope(fmt.Sprint("s-", (i*8+k)*7919%3001)))
		}
		was := b.puts
		add(t, s, 100, scopes...)
		if most := b.puts - was; most > 4*8+16 {
			t.Fatalf("commit %d of 8 scopes folds %d, want at most 48", i, most)
		}
		if i > 400 && i < 500 {
			steady, folds = max(steady, b.puts-was), folds+b.puts-was
		}
		if i == 500 {
			was := b.puts
			add(t, s, 3*budget, "huge")
			if most := b.puts - was; most == 0 || most > 4+16 {
				t.Fatalf("the commit of the huge scope folds %d, want 1 to 20", most)
			}
		}
		if i > 500 && i%100 == 0 {
			add(t, s, 10, "huge")
		}
		if _, _, cost := journal.Overlay(s.Journal); i < 500 && cost > 2*budget || i > 900 && cost > 2*budget {
			t.Fatalf("commit %d: %d bytes wait, want about %d", i, cost, budget)
		}
	}
	if steady == 0 || steady > 2*8 {
		t.Errorf("in the long run a commit of 8 scopes folds up to %d, want 1 to 16", steady)
	}
	if folds < 50*8 || folds > 150*8 {
		t.Errorf("in the long run 99 commits of 8 scopes fold %d, want about as many as they write", folds)
	}
	if got := tailOf(t, s, "huge"); got != 15 {
		t.Errorf("the huge scope has %d inputs, want 15", got)
	}
	again := mustOpen(t, b, budget)
	for i := range 3001 {
		scope := attend.Scope(fmt.Sprint("s-", i))
		if got, want := tailOf(t, again, scope), tailOf(t, s, scope); got != want || got < 5 {
			t.Fatalf("%s has %d inputs after a restart, want %d", scope, got, want)
		}
	}
}

// Big states are folded in small numbers.
func TestFoldBytes(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 30<<20)
	for i := range 100 {
		add(t, s, 300<<10, attend.Scope(fmt.Sprint("big-", i)))
	}
	for i := range 100 {
		was := b.puts
		s.Commit(t.Context(), []attend.Write{{Scope: attend.Scope(fmt.Sprint("small-", i)), Inputs: [][]byte{make([]byte, 1000)}}})
		if n := b.puts - was; n > 4 {
			t.Fatalf("a small commit folds %d scopes of 300 KiB, want at most 4", n)
		}
	}
	// Beyond the budget by far each commit takes what it may.
	mean := mustOpen(t, b, 1)
	for i := range 40 {
		was := b.puts
		add(t, mean, 10, attend.Scope(fmt.Sprint("more-", i)))
		if n := b.puts - was; n > 4 && i < 20 {
			t.Fatalf("a small commit folds %d scopes of 300 KiB, want at most 4", n)
		}
	}
	if len(b.states) < 100 {
		t.Errorf("%d scopes are folded, want all the big ones", len(b.states))
	}
}

// A scope that changes all the time is folded once for many of its changes.
func TestFoldsSeldom(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 20_000)
	for i := range 3000 {
		add(t, s, 50, "hot", attend.Scope(fmt.Sprint("cold-", i)))
	}
	// Each cold one once. The hot one is the oldest again after each round of
	// the journal, which is about 45 commits.
	if most := 3000 + 3000/15; b.puts > most || b.puts < 2500 {
		t.Errorf("3000 commits of a hot and a cold scope fold %d times, want 2500 to %d", b.puts, most)
	}
	if b.drops < 2900 {
		t.Errorf("%d of 3000 records are dropped", b.drops)
	}
}

// What another process folded and dropped leaves this one's memory with its
// next call.
func TestOthersFold(t *testing.T) {
	b := newBackend()
	idle, busy := mustOpen(t, b, 1<<20), mustOpen(t, b, 1)
	for i := range 50 {
		add(t, idle, 10, attend.Scope(fmt.Sprint("s-", i)))
	}
	for i := range 50 {
		add(t, busy, 10, attend.Scope(fmt.Sprint("s-", i)))
		add(t, busy, 10, "other")
	}
	tailOf(t, idle, "other")
	if scopes, due, cost := journal.Overlay(idle.Journal); scopes > 3 || due > 3 || cost > 1000 {
		t.Errorf("%d scopes, %d due times and %d bytes in memory, want what one or two commits have", scopes, due, cost)
	}
}

// Faults at every commit, of every sort: a Journal that goes on, and one that
// begins anew, show the same as before it or as after it.
func TestEveryCut(t *testing.T) {
	for _, what := range []fault{before, lost} {
		for cut := range 40 {
			b := newBackend()
			s := mustOpen(t, b, 600)
			n := 0
			b.fault = func() fault {
				if n++; n == cut+1 {
					return what
				}
				return none
			}
			want := 0
			for i := range 40 {
				rec, err := s.Load(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				w := []attend.Write{{Scope: "s", Expect: rec.Version, Inputs: [][]byte{[]byte("input")}, Due: time.UnixMilli(int64(i))},
					{Scope: attend.Scope(fmt.Sprint("s-", i)), Snapshot: []byte("x")}}
				_, err = s.Commit(t.Context(), w)
				if (err != nil) != (i == cut) || err != nil && !errors.Is(err, errFault) {
					t.Fatalf("fault %d at %d: commit %d has the error %v", what, cut, i, err)
				}
				if err == nil || what == lost {
					want++
				}
				for _, h := range []*store{s, mustOpen(t, b, 600)} {
					if got := tailOf(t, h, "s"); got != want {
						t.Fatalf("fault %d at %d: after commit %d there are %d inputs, want %d", what, cut, i, got, want)
					}
					if err := journal.Audit(h.Journal); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// A read transaction that began before a commit ended is tried again.
func TestReadsAreNotBehind(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 1)
	add(t, s, 10, "s", "t")
	overtaken := false
	overtake := func(f func()) {
		overtaken = false
		b.viewed = func() {
			b.viewed, overtaken = nil, true
			f()
		}
	}
	overtake(func() {
		add(t, s, 10, "s", "t")
		add(t, s, 10, "t")
	})
	if got := tailOf(t, s, "s"); got != 2 || !overtaken {
		t.Errorf("a Load that a commit overtook shows %d inputs, want 2", got)
	}
	overtake(func() {
		if err := s.Remove(t.Context(), "s"); err != nil {
			t.Error(err)
		}
		add(t, s, 10, "t")
	})
	var due []attend.Scope
	for scope, err := range s.Due(t.Context(), time.UnixMilli(5)) {
		if err != nil {
			t.Fatal(err)
		}
		due = append(due, scope)
	}
	if !overtaken || !slices.Equal(due, []attend.Scope{"t"}) {
		t.Errorf("a Due that a removal overtook yields %q, want t", due)
	}
}

// Somebody puts an older database back while the process runs.
func TestOlderDatabase(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 0)
	add(t, s, 10, "s")
	older := b.records
	add(t, s, 10, "s")
	b.records = older
	if got := tailOf(t, s, "s"); got != 1 {
		t.Errorf("the older database shows %d inputs, want 1", got)
	}
	add(t, s, 10, "s")
	add(t, s, 10, "s")
	b.records = b.records[:1]
	add(t, s, 10, "t") // without a Load of s before
	if got := tailOf(t, s, "s"); got != 1 {
		t.Errorf("the older database shows %d inputs, want 1", got)
	}
}

func TestScopeNamedTwice(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 0)
	w := attend.Write{Scope: "s", Inputs: [][]byte{[]byte("a")}}
	out, err := s.Commit(t.Context(), []attend.Write{w, w})
	if err != nil || out[0].Conflict() || !out[1].Conflict() {
		t.Errorf("Commit of one scope twice = %v, %v, want the second to be a conflict", out, err)
	}
	if got := tailOf(t, mustOpen(t, b, 0), "s"); got != 1 {
		t.Errorf("after a restart there are %d inputs, want 1", got)
	}
}

func TestTooLarge(t *testing.T) {
	s := mustOpen(t, newBackend(), 0)
	half := make([]byte, 300<<20)
	_, err := s.Commit(t.Context(), []attend.Write{{Scope: "s", Inputs: [][]byte{half, half}}})
	if large, ok := errors.AsType[*attend.TooLargeError](err); !ok || large.Field != "commit" {
		t.Errorf("Commit of 600 MiB: %v, want too large", err)
	}
	add(t, s, 10, "s")
}

// Who waits for another commit can stop waiting.
func TestWaitingEnds(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 0)
	inside, goOn := make(chan struct{}), make(chan struct{})
	b.landed = func() { close(inside); <-goOn }
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Commit(context.Background(), []attend.Write{{Scope: "s", Snapshot: []byte("a")}}); err != nil {
			t.Error(err)
		}
	})
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Remove(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Remove behind a commit that hangs: %v, want the context's error", err)
	}
	if rec, err := s.Load(t.Context(), "s"); err != nil || string(rec.Snapshot) != "a" {
		t.Errorf("Load beside a commit that hangs = %+v, %v", rec, err)
	}
	close(goOn)
	wg.Wait()
}

// Behind a lock that somebody else keeps, each call waits as long as the
// Backend lets it, and not also for those before it.
func TestWaitingIsTheBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Second
		b := newBackend()
		s := mustOpen(t, b, 0)
		b.lock = func(ctx context.Context) error {
			select {
			case <-time.After(patience):
				return errFault
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * patience / 10)
				began := time.Now()
				_, err := s.Commit(t.Context(), []attend.Write{{Scope: attend.Scope(fmt.Sprint("s-", i)), Snapshot: []byte("a")}})
				if took := time.Since(began); !errors.Is(err, errFault) || took != patience {
					t.Errorf("Commit %d behind a lock = %v after %v, want the Backend's error after %v", i, err, took, patience)
				}
			})
		}
		wg.Wait()
		b.lock = nil
		add(t, s, 10, "s")
		if got := tailOf(t, s, "s"); got != 1 {
			t.Errorf("after the lock is gone there are %d inputs, want 1", got)
		}
	})
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, newBackend(), 0)
	add(t, s, 10, "s")
	s.Close()
	_, load := s.Load(t.Context(), "s")
	_, commit := s.Commit(t.Context(), nil)
	var due error
	for _, due = range s.Due(t.Context(), time.UnixMilli(9)) {
	}
	for _, err := range []error{load, commit, due, s.Remove(t.Context(), "s")} {
		if !errors.Is(err, attend.ErrClosed) {
			t.Errorf("a closed Journal answers %v, want ErrClosed", err)
		}
	}
}

func TestConfig(t *testing.T) {
	if _, err := open(newBackend(), -1); !errors.Is(err, attend.ErrInvalid) || !strings.Contains(err.Error(), "Budget") {
		t.Errorf("a Budget of -1: %v", err)
	}
}
