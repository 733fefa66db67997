package engine

import (
	"context"

	attend "github.com/attend-go/attend/core"
)

// Sweep is one sweep.
func (e *Engine) Sweep(ctx context.Context) {
	e.sweepOnce(ctx, failing{retries: make(map[attend.Scope]retry), tried: make(map[attend.Scope]*op)})
}

// RunWheel sets n moments within a second and lets them go off, millisecond by
// millisecond, as the alarm does. It returns how many did.
func RunWheel(n int) int {
	var w wheel
	w.init(1_767_225_600_000)
	for i := range n {
		w.set(-1, uint64(i), w.now+int64(i%1000))
	}
	fired := 0
	for at, ok := w.next(); ok; at, ok = w.next() {
		w.advance(at, func(uint64) { fired++ })
	}
	return fired
}

// LostClaims is how many claims are kept that were given up.
func (e *Engine) LostClaims() int {
	e.lost.mu.Lock()
	defer e.lost.mu.Unlock()
	return len(e.lost.m)
}
