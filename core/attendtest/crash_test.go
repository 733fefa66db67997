package attendtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
)

var _ attend.ScopeStore = (*attendtest.CrashStore)(nil)

var due = time.UnixMilli(1767225600000)

// add appends one input and one row to the scope.
func add(ctx context.Context, store attend.ScopeStore, scope attend.Scope, text string) error {
	rec, err := store.Load(ctx, scope)
	if err != nil {
		return err
	}
	out, err := store.Commit(ctx, []attend.Write{{
		Scope: scope, Expect: rec.Version, Inputs: [][]byte{[]byte(text)}, Due: due,
		Rows: []attend.Row{{Scope: scope, ID: attend.DecisionID(text), Type: attend.RowDecision, At: due}},
	}})
	if err != nil {
		return err
	}
	if out[0].Conflict() {
		return attend.ErrConflict
	}
	return nil
}

// tail is what the scope holds, as one text.
func tail(t *testing.T, store attend.ScopeStore, scope attend.Scope) string {
	t.Helper()
	rec, err := store.Load(t.Context(), scope)
	if err != nil {
		t.Fatalf("Load = %v, want nil", err)
	}
	text := ""
	for _, in := range rec.Tail {
		text += string(in)
	}
	return text
}

func TestCrashStoreFaults(t *testing.T) {
	for _, test := range []struct {
		name     string
		at       int
		fault    attendtest.Fault
		errs     [4]error // of four commits
		tail     string   // what landed
		commits  int
		outlives bool
	}{
		{"never", 0, attendtest.FaultAfter, [4]error{}, "abcd", 4, true},
		{"later", 5, attendtest.FaultBefore, [4]error{}, "abcd", 4, true},
		{"before the first", 1, attendtest.FaultBefore, [4]error{attendtest.ErrCrashed, attendtest.ErrCrashed, attendtest.ErrCrashed, attendtest.ErrCrashed}, "", 1, false},
		{"before the third", 3, attendtest.FaultBefore, [4]error{2: attendtest.ErrCrashed, 3: attendtest.ErrCrashed}, "ab", 3, false},
		{"before, by default", 3, "", [4]error{2: attendtest.ErrCrashed, 3: attendtest.ErrCrashed}, "ab", 3, false},
		{"after the third", 3, attendtest.FaultAfter, [4]error{2: attendtest.ErrCrashed, 3: attendtest.ErrCrashed}, "abc", 3, false},
		{"answer lost at the third", 3, attendtest.FaultLost, [4]error{2: attendtest.ErrAnswerLost}, "abcd", 4, true},
		{"a fault that there is not", 3, "sometimes", [4]error{2: attend.ErrInvalid}, "abd", 4, true},
	} {
		inner := memory.New()
		store := &attendtest.CrashStore{Store: inner, At: test.at, Fault: test.fault}
		for i, want := range test.errs {
			if err := add(t.Context(), store, "ops/db", "abcd"[i:i+1]); !errors.Is(err, want) {
				t.Errorf("%s: commit %d = %v, want %v", test.name, i+1, err, want)
			}
		}
		if got := tail(t, inner, "ops/db"); got != test.tail {
			t.Errorf("%s: what landed is %q, want %q", test.name, got, test.tail)
		}
		if store.Crashed() == test.outlives || store.Commits() != test.commits {
			t.Errorf("%s: crashed %v after %d commits, want %v after %d", test.name, store.Crashed(), store.Commits(), !test.outlives, test.commits)
		}
	}
}

func TestCrashStoreCountsCommits(t *testing.T) {
	store := &attendtest.CrashStore{Store: memory.New()}
	conflict := attend.Write{Scope: "a", Expect: 7}
	group := []attend.Write{{Scope: "b"}, {Scope: "c"}}
	for _, writes := range [][]attend.Write{{conflict}, group, nil} {
		if _, err := store.Commit(t.Context(), writes); err != nil {
			t.Errorf("Commit of %d writes = %v, want nil", len(writes), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Commit(ctx, group); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit with a context that ended = %v, want the store's own error", err)
	}
	store.Load(t.Context(), "b")
	store.Remove(t.Context(), "b")
	if n := store.Commits(); n != 4 {
		t.Errorf("Commits() = %d, want 4", n)
	}
}

func TestCrashStoreReopens(t *testing.T) {
	first := &attendtest.CrashStore{Store: memory.New(), At: 2, Fault: attendtest.FaultAfter}
	add(t.Context(), first, "ops/db", "a")
	add(t.Context(), first, "ops/db", "b")
	second := first.Reopen()
	second.At, second.Fault = 2, attendtest.FaultBefore
	for i, want := range []error{nil, attendtest.ErrCrashed} {
		if err := add(t.Context(), second, "ops/db", "cd"[i:i+1]); !errors.Is(err, want) {
			t.Errorf("commit %d of the second process = %v, want %v", i+1, err, want)
		}
	}
	third := second.Reopen()
	if got := tail(t, third, "ops/db"); got != "abc" {
		t.Errorf("the third process finds %q, want %q", got, "abc")
	}

	// A process that is closed while it lives is dead as well, and stays it.
	fourth := third.Reopen()
	if err := add(t.Context(), fourth, "ops/db", "e"); err != nil {
		t.Errorf("commit of the fourth process = %v, want nil", err)
	}
	for i, dead := range []*attendtest.CrashStore{first, second, third} {
		if err := add(t.Context(), dead, "ops/db", "x"); !errors.Is(err, attendtest.ErrCrashed) || !dead.Crashed() {
			t.Errorf("commit of process %d = %v, want ErrCrashed", i+1, err)
		}
	}
	if got := tail(t, fourth, "ops/db"); got != "abce" || fourth.Commits() != 1 {
		t.Errorf("at last there is %q after %d commits, want %q after 1", got, fourth.Commits(), "abce")
	}
}

func TestCrashStoreIsDeadInEveryCall(t *testing.T) {
	store := &attendtest.CrashStore{Store: memory.New()}
	if err := add(t.Context(), store, "ops/db", "a"); err != nil {
		t.Fatal(err)
	}
	log := store.Log()
	dueSeq := store.Due(t.Context(), due)
	readSeq := log.Read(t.Context(), attend.Query{})
	calls := []struct {
		name string
		call func() error
	}{
		{"Load", func() error { _, err := store.Load(t.Context(), "ops/db"); return err }},
		{"Commit", func() error { _, err := store.Commit(t.Context(), nil); return err }},
		{"Due", func() error { return only(texts(dueSeq)) }},
		{"Bounds", func() error { _, err := log.Bounds(t.Context()); return err }},
		{"Read", func() error { return only(texts(readSeq)) }},
		{"Find", func() error { _, err := log.Find(t.Context(), "a", ""); return err }},
		{"Wait", func() error { return log.(attend.Waiter).Wait(t.Context(), attend.Query{}) }},
		{"Trim", func() error { return log.Trim(t.Context(), attend.Retain{}, due) }},
		{"Remove", func() error { return store.Remove(t.Context(), "ops/db") }},
	}
	for _, c := range calls[:8] { // not Remove yet
		if err := c.call(); err != nil {
			t.Errorf("%s of a living process = %v, want nil", c.name, err)
		}
	}
	store.Reopen()
	for _, c := range calls {
		if err := c.call(); !errors.Is(err, attendtest.ErrCrashed) {
			t.Errorf("%s of a dead process = %v, want ErrCrashed", c.name, err)
		}
	}
	if got := tail(t, store.Store, "ops/db"); got != "a" {
		t.Errorf("a dead process left %q, want %q", got, "a")
	}
}

func texts[T any](seq iter.Seq2[T, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for v, err := range seq {
			if !yield(fmt.Sprint(v), err) {
				return
			}
		}
	}
}

// only is the error of an iterator that yields one pair.
func only(seq iter.Seq2[string, error]) (only error) {
	n := 0
	for _, err := range seq {
		n, only = n+1, err
	}
	if n != 1 {
		return fmt.Errorf("%d pairs, want one", n)
	}
	return only
}

func TestCrashStoreDiesInsideLoops(t *testing.T) {
	newStore := func() *attendtest.CrashStore {
		store := &attendtest.CrashStore{Store: memory.New(), At: 4}
		for _, s := range []attend.Scope{"a", "b", "c"} {
			if err := add(t.Context(), store, s, string(s)); err != nil {
				t.Fatal(err)
			}
		}
		return store
	}
	for name, loop := range map[string]func(s *attendtest.CrashStore) iter.Seq2[string, error]{
		"Due": func(s *attendtest.CrashStore) iter.Seq2[string, error] { return texts(s.Due(t.Context(), due)) },
		"Read": func(s *attendtest.CrashStore) iter.Seq2[string, error] {
			return texts(s.Log().Read(t.Context(), attend.Query{}))
		},
	} {
		store := newStore()
		var errs []error
		for _, err := range loop(store) {
			errs = append(errs, err)
			add(t.Context(), store, "a", "dies")
		}
		if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], attendtest.ErrCrashed) {
			t.Errorf("%s yields %v, want one pair and then ErrCrashed", name, errs)
		}
		n := 0
		for range loop(newStore()) {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%s yields %d pairs to a loop that is left at the second", name, n)
		}
	}
}

func TestCrashStoreEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &attendtest.CrashStore{Store: memory.New(), At: 2}
		waiter := store.Log().(attend.Waiter)
		wait := func() chan error {
			done := make(chan error, 1)
			go func() { done <- waiter.Wait(t.Context(), attend.Query{}) }()
			synctest.Wait()
			return done
		}
		done := wait()
		if len(done) != 0 {
			t.Fatalf("Wait = %v on an empty log, want it to block", <-done)
		}
		if err := add(t.Context(), store, "ops/db", "a"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Wait = %v after a commit, want nil", err)
		}

		q := attend.Query{Types: []attend.RowType{attend.RowLetter}}
		letters := make(chan error, 1)
		go func() { letters <- waiter.Wait(t.Context(), q) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := waiter.Wait(ctx, q); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want its own context's error", err)
		}
		add(t.Context(), store, "ops/db", "b") // dies
		synctest.Wait()
		if len(letters) != 1 {
			t.Fatal("Wait goes on in a dead process, want it to end")
		}
		if err := <-letters; !errors.Is(err, attendtest.ErrCrashed) {
			t.Errorf("Wait = %v, want ErrCrashed", err)
		}
	})
}

// slowStore lands a commit and answers when it is told to.
type slowStore struct {
	attend.ScopeStore
	landed, answer chan struct{}
}

func (s *slowStore) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out, err := s.ScopeStore.Commit(ctx, writes)
	s.landed <- struct{}{}
	<-s.answer
	return out, err
}

func TestCrashStoreLosesCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowStore{memory.New(), make(chan struct{}), make(chan struct{})}
		store := &attendtest.CrashStore{Store: slow}
		done := make(chan error, 1)
		go func() { done <- add(t.Context(), store, "ops/db", "a") }()
		<-slow.landed
		next := store.Reopen()
		if got := tail(t, next, "ops/db"); got != "a" {
			t.Errorf("the next process finds %q, want %q", got, "a")
		}
		close(slow.answer)
		if err := <-done; !errors.Is(err, attendtest.ErrCrashed) {
			t.Errorf("the dead process's commit = %v, want ErrCrashed", err)
		}
	})
}

// deafStore has a log that can't wait.
type deafStore struct{ attend.ScopeStore }

type deafLog struct{ attend.DecisionLog }

func (s deafStore) Log() attend.DecisionLog { return deafLog{s.ScopeStore.Log()} }

func TestCrashStoreLog(t *testing.T) {
	hears := &attendtest.CrashStore{Store: memory.New()}
	if _, ok := hears.Log().(attend.Waiter); !ok {
		t.Error("the log is no Waiter, though the store's is one")
	}
	deaf := &attendtest.CrashStore{Store: deafStore{memory.New()}}
	if _, ok := deaf.Log().(attend.Waiter); ok {
		t.Error("the log is a Waiter, though the store's is none")
	}
	for _, s := range []*attendtest.CrashStore{hears, deaf} {
		if s.Log() != s.Log() {
			t.Error("Log() gives another log each time, want the same")
		}
	}
}

func TestCrashStoreFromManyGoroutines(t *testing.T) {
	inner := memory.New()
	store := &attendtest.CrashStore{Store: inner, At: 30, Fault: attendtest.FaultAfter}
	var mu sync.Mutex
	errs := make(map[string]int)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			scope := attend.Scope(fmt.Sprint("s", i))
			_, err := store.Commit(t.Context(), []attend.Write{{Scope: scope, Inputs: [][]byte{{1}}}})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				errs["ok"]++
			case errors.Is(err, attendtest.ErrCrashed):
				errs["crashed"]++
			default:
				errs[err.Error()]++
			}
		})
	}
	wg.Wait()
	landed := 0
	for i := range 50 {
		if tail(t, inner, attend.Scope(fmt.Sprint("s", i))) != "" {
			landed++
		}
	}
	// Those that were under way when it died may or may not have landed.
	if errs["ok"]+errs["crashed"] != 50 || errs["ok"] > landed-1 || landed < 30 {
		t.Errorf("%v and %d landed, want at least 30, and one more than were answered", errs, landed)
	}
	if n := store.Commits(); n < 30 || n > 50 || !store.Crashed() {
		t.Errorf("crashed %v after %d commits, want it dead after 30 or a few more", store.Crashed(), n)
	}
}
