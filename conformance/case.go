package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Case checks one rule.
type Case struct {
	// Name is suite/what-is-checked. It never changes, since waivers and
	// requirement lists name it.
	Name string
	// Rule quotes the contract's sentence from the comments of package attend.
	Rule string
	// Since is the version that the case came with, such as "v0.1".
	Since string
	// Run returns the first violation as an error that says what broke and how,
	// nil where the rule holds, or a [*SkipError]. It must return soon after
	// ctx ends, as far as the store lets it.
	Run func(ctx context.Context, e Env) error
}

// Suite is the part of the name before the slash.
func (c Case) Suite() string {
	suite, _, _ := strings.Cut(c.Name, "/")
	return suite
}

// An Env is what a case can ask for. Fields that its suite has no use for, and
// abilities that are not there, are nil.
type Env struct {
	// Store returns a fresh, empty store.
	Store func() attend.ScopeStore
	// Reopen returns a second handle on a store's data, as another process
	// would hold it. The first may be closed.
	Reopen func(attend.ScopeStore) attend.ScopeStore
	// EventLog returns a fresh, empty event log that keeps everything.
	EventLog func() attend.EventLog
	// Retaining returns a fresh, empty event log with a retention.
	Retaining func(attend.Retain) attend.EventLog
	// ReopenLog is Reopen for event logs.
	ReopenLog func(attend.EventLog) attend.EventLog
	// Soak is how long a case of the concurrent suite goes on. Zero: its short
	// form.
	Soak time.Duration
	// Logf is where a case says what it did. Nil: nowhere.
	Logf func(format string, args ...any)
}

func (e Env) logf(format string, args ...any) {
	if e.Logf != nil {
		e.Logf(format, args...)
	}
}

// A SkipError says why a case does not apply to a store.
type SkipError struct{ Reason string }

// Error is the reason.
func (e *SkipError) Error() string { return e.Reason }

func skip(reason string) error { return &SkipError{Reason: reason} }

// Cases returns every case, in the order in which they run. The suites are
// scope, log, concurrent, crash and events.
func Cases() []Case {
	return slices.Concat(
		scopeCases(), commitCases(), versionCases(), keepCases(), dueCases(), removeCases(),
		logCases(), rowCases(), cursorCases(), trimCases(), waitCases(),
		concurrentCases(), handleCases(),
		crashCases(),
		eventCases(), batchCases(), eventWaitCases(), gapCases(),
	)
}

// Try runs the case and gives up once it has run for limit and a little more,
// which is for calls that hang: what hangs stays behind. A panic is a
// violation.
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
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return fmt.Errorf("something hangs: the case still runs after %v\n%s", limit, stacks)
	}
}

// patience is how long a case waits for one call: until something is surely
// wrong, and soon enough to say so itself.
func patience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end) / 2
	}
	return time.Minute
}

// within calls f, and returns its error, or another one if f takes longer than
// a call that doesn't block can.
func within(ctx context.Context, what string, f func(context.Context) error) error {
	wait := patience(ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	case <-t.C:
		return fmt.Errorf("%s did not return in %v", what, wait.Round(time.Millisecond))
	}
}
