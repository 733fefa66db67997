package mcpevents

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

// A Client follows subscriptions over sessions that break: it makes a new session
// where one ends, and opens again what it followed, with a growing pause between
// attempts. Its followers share one session at a time. A Client must not be
// copied; its methods may be called from several goroutines.
type Client struct {
	// Dial makes a session. It is called again after each session that ended;
	// never twice at the same time, and a failure pauses all followers together.
	// The Client closes what Dial made when nobody follows over it any more. ctx
	// ends when Dial has returned, so what the session needs for longer, a command
	// of exec.CommandContext say, must not be made with it.
	Dial func(ctx context.Context) (*Session, error)
	// DialTimeout is how long Dial may take; zero is a minute.
	DialTimeout time.Duration
	// Permanent says which errors end a subscription; nil is [Permanent].
	Permanent func(error) bool

	mu      sync.Mutex
	current *shared
	dialing chan struct{} // closed when the dial under way is over
	pause   backoff
	next    time.Time // before which nobody dials
}

// A shared session is closed by the last who leaves it.
type shared struct {
	s     *Session
	users int
}

// Follow yields the events of a subscription until ctx ends or an error is
// permanent, which is the last pair. All that [Session.Follow] ends with besides
// is waited out: a second at first, twice that each time up to half a minute, with
// jitter; half a minute at least after ResourceExhausted, and what Retry-After
// says; anew from a second once it worked for half a minute, or brought events and
// ended with ErrOverflow. [FollowConfig.OnTrouble] hears of each.
func (c *Client) Follow(ctx context.Context, sub Subscription, f FollowConfig) iter.Seq2[Batch, error] {
	permanent := c.Permanent
	if permanent == nil {
		permanent = Permanent
	}
	return func(yield func(Batch, error) bool) {
		fo := newFollower(sub, f, func(b Batch) bool { return yield(b, nil) })
		defer fo.f.Receiver.leave(fo)
		wait := backoff{}
		var session *shared
		defer func() { c.release(session, false) }()
		for {
			if session == nil {
				var err error
				if session, err = c.acquire(ctx, permanent, fo.f.OnTrouble); err != nil {
					yield(Batch{}, err)
					return
				}
			}
			err := fo.run(ctx, session.s)
			if errors.Is(err, errLeft) {
				return
			}
			if ctx.Err() != nil || permanent(err) {
				yield(Batch{}, err)
				return
			}
			fo.f.OnTrouble(err)
			live := time.Duration(0)
			if !fo.live.IsZero() {
				live = time.Since(fo.live)
			}
			if errors.Is(err, ErrOverflow) && fo.took { // a backlog, of which a part is done
				wait = backoff{}
			}
			if session.s.Err() != nil || suspect(err) {
				c.release(session, true)
				session = nil
			}
			if !sleep(ctx, wait.next(live, err)) {
				yield(Batch{}, context.Cause(ctx))
				return
			}
			if session != nil && session.s.Err() != nil { // it ended meanwhile
				c.release(session, true)
				session = nil
			}
		}
	}
}

// suspect reports whether err says something about the whole session, so that a
// new one is better than to go on with it.
func suspect(err error) bool {
	if _, ok := errors.AsType[*StatusError](err); ok {
		return !answered(err)
	}
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrLost) || errors.Is(err, ErrTimeout) || errors.Is(err, ErrProtocol)
}

// acquire returns the session that all share, and makes one where there is none.
// It waits for as long as that takes.
func (c *Client) acquire(ctx context.Context, permanent func(error) bool, trouble func(error)) (*shared, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		c.mu.Lock()
		if c.current != nil && c.current.s.Err() == nil {
			c.current.users++
			defer c.mu.Unlock()
			return c.current, nil
		}
		if busy := c.dialing; busy != nil {
			c.mu.Unlock()
			select {
			case <-busy:
			case <-ctx.Done():
			}
			continue
		}
		mine := make(chan struct{})
		c.dialing = mine
		wait := time.Until(c.next)
		c.mu.Unlock()
		s, err := c.alone(ctx, wait, mine)
		c.mu.Lock()
		c.dialing = nil
		close(mine)
		if err == nil {
			c.pause, c.next = backoff{}, time.Time{}
			c.current = &shared{s, 1}
			defer c.mu.Unlock()
			return c.current, nil
		}
		if ctx.Err() == nil {
			c.next = time.Now().Add(c.pause.next(0, err))
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			continue
		}
		if permanent(err) {
			return nil, err
		}
		trouble(err)
	}
}

// alone dials. Others may, should Dial panic.
func (c *Client) alone(ctx context.Context, wait time.Duration, mine chan struct{}) (*Session, error) {
	returned := false
	defer func() {
		if !returned {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dialing = nil
			close(mine)
		}
	}()
	s, err := c.dial(ctx, wait)
	returned = true
	return s, err
}

// dial makes a session after a while.
func (c *Client) dial(ctx context.Context, wait time.Duration) (*Session, error) {
	if wait > 0 && !sleep(ctx, wait) {
		return nil, context.Cause(ctx)
	}
	timeout := c.DialTimeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	defer stop()
	s, err := c.Dial(ctx)
	if err == nil && s == nil {
		err = errors.New("mcpevents: Client.Dial returned no session")
	}
	return s, err
}

// release leaves a session; a bad one is not given to anybody any more.
func (c *Client) release(h *shared, bad bool) {
	if h == nil {
		return
	}
	c.mu.Lock()
	h.users--
	if h.users == 0 || bad {
		if c.current == h {
			c.current = nil
		}
	}
	last := h.users == 0
	c.mu.Unlock()
	if last {
		_ = h.s.Close() // of what it broke with, the followers have told
	}
}
