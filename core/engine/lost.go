package engine

import (
	"context"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// lostClaims are those that were given up while nobody knew whether they had
// landed.
type lostClaims struct {
	mu sync.Mutex
	m  map[lostWork]*machine.Claim
}

// lostWork is the piece of work that a claim is about.
type lostWork struct {
	scope attend.Scope
	lane  machine.Lane
	num   uint64
}

func workOf(scope attend.Scope, c *machine.Claim) lostWork { return lostWork{scope, c.Lane, c.Num} }

func (l *lostClaims) add(scope attend.Scope, c *machine.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = make(map[lostWork]*machine.Claim)
	}
	l.m[workOf(scope, c)] = c
}

// has reports whether a claim is still lost: this process has not claimed the
// same work again since. Then a lease that looks like the claim's is the claim's;
// two claims of one millisecond of the scope look the same.
func (l *lostClaims) has(scope attend.Scope, c *machine.Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m[workOf(scope, c)] == c
}

// drop forgets a claim, and leaves another one for the same work.
func (l *lostClaims) drop(scope attend.Scope, c *machine.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := workOf(scope, c); l.m[w] == c {
		delete(l.m, w)
	}
}

// remove forgets whichever claim is lost for the same work as c.
func (l *lostClaims) remove(scope attend.Scope, c *machine.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, workOf(scope, c))
}

// giveBackLater gives back a lease that may have landed, though the store's
// answer was lost and its state can't be had: it would idle until it ends, and
// cost an attempt. That is tried until then, once a second in the end, and holds
// no permit. Once Run is ending it is tried once more at the most: what the store
// does not answer then waits for the lease's end.
func (e *Engine) giveBackLater(scope attend.Scope, j *job) {
	if !e.begin() {
		return
	}
	c := &j.claim
	e.lost.add(scope, c)
	go func() {
		defer e.work.Done()
		defer e.lost.drop(scope, c)
		for pause := longestPause; time.Now().Before(j.ends) && e.lost.has(scope, c); pause = min(2*pause, time.Second) {
			ending := !e.running.Load()
			time.Sleep(pause)
			if e.do(context.Background(), scope, &op{lost: c, until: j.ends}) == nil || ending {
				return
			}
		}
	}()
}
