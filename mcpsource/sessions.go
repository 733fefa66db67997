package mcpsource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// dialTimeout is how long a session may take to be made.
const dialTimeout = time.Minute

// Sessions is a session that is replaced when it closes. The sources that were
// made with it share the one that there is. Its methods may be called from many
// goroutines.
type Sessions struct {
	dial func(ctx context.Context) (*mcpevents.Session, error)
	turn chan struct{} // held by who makes a session

	mu      sync.Mutex
	closed  bool
	current *held
	all     map[*held]bool // those that are not closed
}

// A held session is closed when it is not the current one any more and nobody
// follows on it.
type held struct {
	session *mcpevents.Session
	users   int
}

// NewSessions returns sessions that dial makes: one when the first source needs
// it, and another after each that closed, did not answer, or broke the protocol.
// dial is never called twice at the same time, may take a minute, and its ctx ends
// when it has returned, so that nothing may depend on that. Its errors are plain
// to the engine, which tries again with its backoff, unless they are an
// [*attend.PermanentError] or [Permanent] says so.
func NewSessions(dial func(ctx context.Context) (*mcpevents.Session, error)) *Sessions {
	return &Sessions{dial: dial, turn: make(chan struct{}, 1), all: map[*held]bool{}}
}

// Follow follows a subscription on the current session, until that ends; see
// [mcpevents.Session.Follow].
func (d *Sessions) Follow(ctx context.Context, sub mcpevents.Subscription, f mcpevents.FollowConfig) iter.Seq2[mcpevents.Batch, error] {
	return func(yield func(mcpevents.Batch, error) bool) {
		h, err := d.acquire(ctx)
		if err != nil {
			yield(mcpevents.Batch{}, err)
			return
		}
		defer func() { d.release(h, suspect(err)) }()
		var b mcpevents.Batch
		for b, err = range h.session.Follow(ctx, sub, f) {
			if !yield(b, err) {
				return
			}
		}
	}
}

// Close closes the session that there is. Sources end with an
// [*attend.PermanentError] from then on.
func (d *Sessions) Close() error {
	d.mu.Lock()
	d.closed, d.current = true, nil
	var open []*held
	for h := range d.all {
		open = append(open, h)
	}
	clear(d.all)
	d.mu.Unlock()
	var errs []error
	for _, h := range open {
		errs = append(errs, h.session.Close())
	}
	return errors.Join(errs...)
}

// suspect reports whether err says something about the session as a whole, so
// that a new one is better.
func suspect(err error) bool {
	if _, ok := errors.AsType[*mcpevents.StatusError](err); ok {
		return !answered(err) // a server that answers knows the session
	}
	for _, e := range []error{mcpevents.ErrClosed, mcpevents.ErrLost, mcpevents.ErrTimeout, mcpevents.ErrProtocol} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// acquire returns the session that all share, and makes one where there is none.
func (d *Sessions) acquire(ctx context.Context) (*held, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	h, closed := d.current, d.closed
	if good := h != nil && h.session.Err() == nil; good && !closed {
		h.users++
		d.mu.Unlock()
		return h, nil
	}
	d.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if h != nil {
		d.drop(h)
	}
	ctx, stop := context.WithTimeoutCause(ctx, dialTimeout, mcpevents.ErrTimeout)
	defer stop()
	session, err := d.dial(ctx)
	if err == nil && session == nil {
		err = attend.Permanent(errors.New("the function that makes sessions returned none"))
	}
	if err != nil {
		return nil, fmt.Errorf("make a session: %w", err)
	}
	return d.take(session)
}

// errClosed is what sources end with once their sessions were closed.
var errClosed = attend.Permanent(fmt.Errorf("%w: by Sessions.Close", mcpevents.ErrClosed))

// take makes a new session the current one.
func (d *Sessions) take(session *mcpevents.Session) (*held, error) {
	h := &held{session, 1}
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.current, d.all[h] = h, true
	}
	d.mu.Unlock()
	if closed {
		_ = session.Close() // nobody has used it
		return nil, errClosed
	}
	return h, nil
}

// release leaves a session; a bad one is not given to anybody any more.
func (d *Sessions) release(h *held, bad bool) {
	d.mu.Lock()
	h.users--
	d.mu.Unlock()
	if bad {
		d.drop(h)
		return
	}
	d.closeUnused(h)
}

// drop makes sure that nobody gets a session any more.
func (d *Sessions) drop(h *held) {
	d.mu.Lock()
	if d.current == h {
		d.current = nil
	}
	d.mu.Unlock()
	d.closeUnused(h)
}

// closeUnused closes a session that nobody has and nobody will get.
func (d *Sessions) closeUnused(h *held) {
	d.mu.Lock()
	last := h.users == 0 && d.current != h && d.all[h]
	if last {
		delete(d.all, h)
	}
	d.mu.Unlock()
	if last {
		_ = h.session.Close() // of what it broke with, its followers have told
	}
}
