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

// blocked reports whether no call may start now. A call that may is the probe.
func (b *breaker) blocked(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return false
	}
	if b.probing || now.Before(b.until) {
		return true
	}
	b.probing = true
	return false
}

// probed says that a call that may have been the probe is over, or was never
// made.
func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// answered hears of each call's outcome.
func (b *breaker) answered(e *Engine, err error) {
	p, ok := errors.AsType[*attend.PermanentError](err)
	b.mu.Lock()
	was := b.err
	if !ok || !p.Account {
		b.err, b.fails = nil, 0
		b.mu.Unlock()
		if was != nil {
			e.log.Info("attend: the judge's account works again")
			e.admit()
		}
		return
	}
	b.err = err
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
		e.submit(scope, &op{grant: m})
	}
}
