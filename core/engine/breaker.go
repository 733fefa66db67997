package engine

import (
	"errors"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A breaker keeps judge calls back while the judge's account is at fault: after
// such a failure none starts for a while, then one, as a probe.
type breaker struct {
	mu      sync.Mutex
	err     error // the last such failure; nil: all is well
	fails   int
	until   time.Time
	probing bool
}

// admits reports whether a call may start now, and whether it is the probe.
func (b *breaker) admits(now time.Time) (ok, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return true, false
	}
	if b.probing || now.Before(b.until) {
		return false, false
	}
	b.probing = true
	return true, true
}

// probed says that the probe is over, or was never made.
func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// answered hears of each call's outcome. Of the calls that were under way when
// the account began to fail, those that fail too say nothing new. An error that
// is neither permanent nor the account's says nothing about it, but a probe that
// ends so has not shown that it works again.
func (b *breaker) answered(e *Engine, err error, probe bool) {
	p, permanent := errors.AsType[*attend.PermanentError](err)
	b.mu.Lock()
	was := b.err
	switch {
	case err == nil || permanent && !p.Account:
		b.err, b.fails = nil, 0
		b.mu.Unlock()
		if was != nil {
			e.log.Info("attend: the judge's account works again")
			e.admit()
		}
		return
	case was == nil && !permanent || was != nil && !probe:
		b.mu.Unlock()
		return
	}
	if permanent {
		b.err = err
	}
	b.fails++
	pause := min(time.Second<<min(2*(b.fails-1), 6), machine.MaxRetryAfter)
	b.until = time.Now().Add(pause)
	b.mu.Unlock()
	if was == nil {
		e.log.Error("attend: the judge's account fails; windows wait in their slots until it works again", "err", err)
	}
	time.AfterFunc(pause, e.admit)
}

// AccountError is why the judge's account fails, nil while it works. An app
// shows it in its readiness.
func (e *Engine) AccountError() error {
	e.account.mu.Lock()
	defer e.account.mu.Unlock()
	return e.account.err
}

// admit lets calls start that stand in line.
func (e *Engine) admit() {
	for {
		scope, m := e.calls.next()
		if m == nil {
			return
		}
		e.background(scope, &op{grant: m})
	}
}
