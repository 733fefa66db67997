package attendtest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

var (
	// ErrCrashed is what a [CrashStore] that has died answers to every call.
	ErrCrashed = errors.New("attendtest: the process has crashed")
	// ErrAnswerLost is what a [CrashStore] answers to a commit whose answer it
	// lost.
	ErrAnswerLost = errors.New("attendtest: the answer was lost")
)

// A Fault says what happens at a commit.
type Fault string

const (
	FaultBefore Fault = "before" // the process dies just before the commit lands
	FaultAfter  Fault = "after"  // the process dies just after it has landed
	FaultLost   Fault = "lost"   // it lands, its answer is lost, and the process lives on
)

// A CrashStore is an [attend.ScopeStore] as one process sees it, which dies, or
// loses an answer, at a commit. Once it has died every call answers
// [ErrCrashed], calls that are under way included, for ever: what runs on it is
// the dead process. [CrashStore.Reopen] gives the next process its own.
//
// A commit is one call of Commit, whatever it holds and however it ends.
type CrashStore struct {
	Store attend.ScopeStore // what it wraps; required, and never closed
	At    int               // the number of the commit, from 1. 0: no fault
	Fault Fault             // empty: FaultBefore

	mu      sync.Mutex
	commits int
	dead    bool
	waits   map[*context.CancelFunc]struct{} // end the calls of Wait under way
	log     attend.DecisionLog
}

// Reopen returns another CrashStore on the same Store, without a fault planned,
// as a process would hold it that starts now. The one that it is called on is
// dead from then on, if it lived: that is a crash between two commits. Its
// fields may be set before its first call.
func (s *CrashStore) Reopen() *CrashStore {
	s.kill()
	return &CrashStore{Store: s.Store}
}

// Commits is how many commits the store was asked for while it lived, the one
// that it died at included.
func (s *CrashStore) Commits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// Crashed reports whether the store is dead.
func (s *CrashStore) Crashed() bool { return s.check() != nil }

func (s *CrashStore) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return ErrCrashed
	}
	return nil
}

func (s *CrashStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for cancel := range s.waits {
		(*cancel)()
	}
	s.waits = nil
}

// count numbers a commit and says what is to happen at it.
func (s *CrashStore) count() (Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return "", ErrCrashed
	}
	s.commits++
	if s.commits != s.At {
		return "", nil
	}
	switch s.Fault {
	case "", FaultBefore:
		return FaultBefore, nil
	case FaultAfter, FaultLost:
		return s.Fault, nil
	}
	return "", &attend.InvalidError{Field: "CrashStore.Fault", Want: "before, after or lost"}
}

// Commit commits, unless the process dies first.
func (s *CrashStore) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	fault, err := s.count()
	if err != nil {
		return nil, err
	}
	if fault == FaultBefore {
		s.kill()
		return nil, ErrCrashed
	}
	out, err := s.Store.Commit(ctx, writes)
	switch fault {
	case FaultAfter:
		s.kill()
	case FaultLost:
		return nil, ErrAnswerLost
	}
	return answer(s, out, err)
}

// answer is what a call brings home: nothing, where the process died meanwhile.
func answer[T any](s *CrashStore, v T, err error) (T, error) {
	if dead := s.check(); dead != nil {
		var none T
		return none, dead
	}
	return v, err
}

// Load loads from the store.
func (s *CrashStore) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	if err := s.check(); err != nil {
		return attend.Record{}, err
	}
	rec, err := s.Store.Load(ctx, scope)
	return answer(s, rec, err)
}

// Due yields the store's scopes that are due, until the process dies.
func (s *CrashStore) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return each(s, func() iter.Seq2[attend.Scope, error] { return s.Store.Due(ctx, now) })
}

// each yields what seq does while the process lives, and then its end.
func each[T any](s *CrashStore, seq func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := s.check(); err != nil {
			yield(none, err)
			return
		}
		for v, err := range seq() {
			if v, err = answer(s, v, err); !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Remove removes the scope from the store. It is no commit.
func (s *CrashStore) Remove(ctx context.Context, scope attend.Scope) error {
	if err := s.check(); err != nil {
		return err
	}
	_, err := answer(s, struct{}{}, s.Store.Remove(ctx, scope))
	return err
}

// Log returns the store's log, which dies with the process. It is an
// [attend.Waiter] where the store's is one.
func (s *CrashStore) Log() attend.DecisionLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil { // the same one each time
		log := s.Store.Log()
		s.log = &crashLog{s, log}
		if w, ok := log.(attend.Waiter); ok {
			s.log = &crashWaiter{crashLog{s, log}, w}
		}
	}
	return s.log
}
