package attendtest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// ErrScripted is the cause of every failure of this package that a test asked
// for without giving an error of its own.
var ErrScripted = errors.New("attendtest: scripted failure")

// A Judge is an [attend.Judge] that works down Script, an answer a call, and
// stays on the last one. The zero Judge queues every window.
type Judge struct {
	// Script must not change once Judge was called. Calls of several scopes
	// take its answers in the order in which they come.
	Script []Answer

	mu    sync.Mutex
	calls []attend.JudgeInput
}

// An Answer is one answer of a [Judge]: a judgment, or a failure where Err or
// Hang is set. The zero Answer names no route, which counts as a failed attempt.
type Answer struct {
	Route         attend.Route
	Probabilities map[attend.Route]float64
	Predicates    map[string]float64
	Confidence    float64

	// Err is answered in place of a judgment; see [Fail] and its neighbours.
	Err error
	// Hang blocks until the context ends and answers with its error.
	Hang bool
	// Until holds the answer back until the channel is closed or yields a
	// value. Where the context ends first, its error is the answer. Nil: at
	// once. In a bubble it must be a channel of that bubble.
	Until <-chan struct{}
}

// Fail is the answer of a judge that fails this once.
func Fail() Answer { return Answer{Err: ErrScripted} }

// FailPermanently is the answer of a judge that can't ever judge this window.
func FailPermanently() Answer { return Answer{Err: attend.Permanent(ErrScripted)} }

// FailAccount is the answer of a judge whose account is at fault.
func FailAccount() Answer { return Answer{Err: attend.PermanentAccount(ErrScripted)} }

// RetryAfter is the answer of a judge that asks for a pause of d.
func RetryAfter(d time.Duration) Answer {
	return Answer{Err: &attend.RetryAfterError{After: d, Err: ErrScripted}}
}

// Hang is the answer of a judge that is stuck until the context ends.
func Hang() Answer { return Answer{Hang: true} }

// Judge records in and gives the script's next answer. A judgment's maps are
// the caller's own.
func (j *Judge) Judge(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	a := j.next(in)
	if err := a.wait(ctx); err != nil {
		return attend.Judgment{}, err
	}
	if a.Err != nil {
		return attend.Judgment{}, a.Err
	}
	return attend.Judgment{
		Route:         a.Route,
		Probabilities: maps.Clone(a.Probabilities),
		Predicates:    maps.Clone(a.Predicates),
		Confidence:    a.Confidence,
	}, nil
}

func (j *Judge) next(in attend.JudgeInput) Answer {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls = append(j.calls, copyInput(in))
	if len(j.Script) == 0 {
		return Answer{Route: attend.RouteQueue}
	}
	return j.Script[min(len(j.calls), len(j.Script))-1]
}

// wait returns when the answer's time has come, or with ctx's error.
func (a Answer) wait(ctx context.Context) error {
	until := a.Until
	switch {
	case a.Hang:
		until = nil
	case until == nil:
		return nil
	default:
		select { // an answer that may come counts, though ctx has ended too
		case <-until:
			return nil
		default:
		}
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Calls returns what the judge was asked, oldest first, calls that failed or
// have not returned yet included.
func (j *Judge) Calls() []attend.JudgeInput {
	j.mu.Lock()
	defer j.mu.Unlock()
	return copyAll(j.calls, copyInput)
}
