package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// A Store tells the suite how to make the store under test.
type Store struct {
	// New returns an empty store. It is called for each case; on a shared
	// database each store lives under a prefix that nothing else uses. Clean up
	// with t.Cleanup.
	New func(t testing.TB) mcpevents.SubscriptionStore
	// Reopen returns a second handle on s's data, as another process would hold
	// it. Nil: one process only, and the cases that need it are skipped.
	Reopen func(t testing.TB, s mcpevents.SubscriptionStore) mcpevents.SubscriptionStore
}

// Run runs every case as a subtest of its name.
func Run(t *testing.T, s Store) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			e := Env{Store: func() mcpevents.SubscriptionStore { return s.New(t) }}
			if s.Reopen != nil {
				e.Reopen = func(a mcpevents.SubscriptionStore) mcpevents.SubscriptionStore { return s.Reopen(t, a) }
			}
			switch err := c.Try(t.Context(), time.Minute, e); {
			case errors.Is(err, ErrNoHandle):
				t.Skip(err)
			case err != nil:
				t.Fatalf("\n  rule: %s\nbroken: %v", c.Rule, err)
			}
		})
	}
}

// ErrNoHandle is what a case returns that needs [Env].Reopen.
var ErrNoHandle = errors.New("there is no second handle")

// A Case checks one rule.
type Case struct {
	Name string // what is checked
	Rule string // the contract's sentence, from the comments of package mcpevents
	// Run returns the first violation as an error that says what broke and how,
	// nil where the rule holds. It must return soon after ctx ends, as far as the
	// store lets it.
	Run func(ctx context.Context, e Env) error
}

// An Env is what a case can ask for.
type Env struct {
	// Store returns a fresh, empty store.
	Store func() mcpevents.SubscriptionStore
	// Reopen returns a second handle on a store's data; nil: there is none.
	Reopen func(mcpevents.SubscriptionStore) mcpevents.SubscriptionStore
}

// handles are two on one store's data.
func (e Env) handles() (a, b mcpevents.SubscriptionStore, err error) {
	if e.Reopen == nil {
		return nil, nil, ErrNoHandle
	}
	a = e.Store()
	return a, e.Reopen(a), nil
}

// Cases returns every case, in the order in which they run.
func Cases() []Case {
	return slices.Concat(writeCases(), recordCases(), dueCases(), concurrentCases())
}

// Try runs the case and gives up after limit, which is for calls that hang: what
// hangs stays behind. A panic is a violation.
func (c Case) Try(ctx context.Context, limit time.Duration, e Env) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := errors.New("the store's factory gave up")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			done <- err
		}()
		err = c.Run(ctx, e)
	}()
	over := time.NewTimer(limit + limit/4)
	defer over.Stop()
	select {
	case err := <-done:
		return err
	case <-over.C:
		return fmt.Errorf("something hangs: the case still runs after %v", limit)
	}
}
