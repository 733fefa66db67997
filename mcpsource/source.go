package mcpsource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// A Follower is what a source follows its subscription on: a [*mcpevents.Session],
// with which the source ends when it closes, or [*Sessions], which make another
// one then. Several sources may share one (C7).
type Follower interface {
	Follow(ctx context.Context, sub mcpevents.Subscription, f mcpevents.FollowConfig) iter.Seq2[mcpevents.Batch, error]
}

// maxBatch is how many events a poll asks for, and a batch of a stream has at
// most.
const maxBatch = 100

// A Source is one subscription as an [attend.Source]. It may be attached to
// several scopes at once, but where webhooks deliver it: there a second one ends with
// [mcpevents.ErrNoMode]. The session that it was made with stays the caller's.
type Source struct {
	from   Follower
	c      Config
	sub    mcpevents.Subscription
	key    string
	single bool // one session, and none after it

	mu   sync.Mutex
	left memory
}

// A memory is what one run of a source leaves to the next.
type memory struct {
	at    attend.Cursor   // where it stopped
	seen  *mcpevents.Seen // the events up to there; nil: not known
	blind bool            // what happens until the next run can't be had any more
	most  int             // events to ask for at once
}

// New returns the source of one subscription. It sends nothing; that begins when
// an engine attaches it. The error is [attend.ErrInvalid] and names the field.
//
// The source ends with an [*attend.PermanentError] where [Permanent] says so, or
// when the session closes and from is one; all else is tried again by the engine,
// from the committed cursor. The first time, and for a type without cursors each
// time, it starts from now.
func New(from Follower, c Config) (*Source, error) {
	session, single := from.(*mcpevents.Session)
	sessions, several := from.(*Sessions)
	if from == nil || single && session == nil || several && (sessions == nil || sessions.dial == nil) {
		return nil, &attend.InvalidError{Field: "session", Want: "a value, it is required"}
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("mcpsource: %w", err)
	}
	return &Source{
		from: from, c: c, single: single,
		sub: mcpevents.Subscription{Name: c.Name, Arguments: c.Arguments},
		key: keyOf(c.Server, c.Name, c.Arguments),
	}, nil
}

// Key is mcp:<server>:<name>:<arguments in canonical form>. In the server's name
// colons and percent signs are escaped as in URLs. Arguments that make the key
// longer than 1024 bytes, or have characters that a key must not have, stand as
// "sha256:" and their hash in hex.
func (s *Source) Key() string { return s.key }

// Batches yields what comes after the given cursor. A batch without events moves
// the cursor as far as the server has looked (C2). Gap is set where the server
// says that it began later than at the cursor (C3); and since events are missing
// there too, where one was dropped, or what may have been one, and where the type
// has no cursors and a run before had begun. See [New] for how it ends.
func (s *Source) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		m := s.recall(after)
		gap := m.blind
		follow := mcpevents.FollowConfig{
			Mode: s.c.Mode, Receiver: s.c.Receiver, Cursor: mcpevents.Cursor(after), MaxAge: s.c.MaxAge, MaxEvents: m.most,
			PollInterval: s.c.PollInterval, Idle: s.c.IdleTimeout, MaxBuffered: s.c.MaxBuffered, Seen: m.seen,
			OnTrouble: func(err error) {
				gap = gap || lost(err)
				s.c.OnError(err)
			},
		}
		for b, err := range s.from.Follow(ctx, s.sub, follow) {
			if err != nil {
				s.end(ctx, m, gap, err, yield)
				return
			}
			m.most = maxBatch
			if m.blind = b.Cursor == ""; m.blind && len(b.Events) == 0 && !b.Truncated && !gap {
				continue // it has begun, and there is nothing to commit
			}
			if len(b.Cursor) > attend.MaxCursorBytes {
				// Without it a restart would bring all since the last one again.
				err := &attend.InvalidError{Field: "cursor of the server", Want: "at most 4096 bytes"}
				yield(attend.Batch{}, attend.Permanent(fmt.Errorf("mcpsource: %s: %w", s.c.Name, err)))
				return
			}
			batch := attend.Batch{Cursor: attend.Cursor(b.Cursor), Gap: b.Truncated || gap}
			for _, v := range b.Events {
				batch.Events = append(batch.Events, eventOf(v))
			}
			if gap = false; !yield(batch, nil) {
				break
			}
			if !m.blind {
				m.at = batch.Cursor
			}
		}
		s.keep(m) // its events up to there, since mcpevents forgets what was not taken
	}
}

// end tells how a run ended, after what is still to be told.
func (s *Source) end(ctx context.Context, m memory, gap bool, err error, yield func(attend.Batch, error) bool) {
	if ctx.Err() != nil {
		s.keep(m)
		yield(attend.Batch{}, err)
		return
	}
	if gap && !yield(attend.Batch{Gap: true}, nil) {
		return
	}
	switch {
	case errors.Is(err, mcpevents.ErrTooLarge), errors.Is(err, mcpevents.ErrTimeout): // less may come through
		m.most = max(m.most/2, 1)
	case errors.Is(err, mcpevents.ErrOverflow), errors.Is(err, mcpevents.ErrIdle):
		s.c.OnError(err)
	}
	s.keep(m)
	yield(attend.Batch{}, s.outcome(err))
}

// recall returns what the last run left, where this one goes on from there, and
// takes it away: of two runs at a time one begins anew.
func (s *Source) recall(after attend.Cursor) memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.left
	if m.seen == nil || m.at != after {
		return memory{at: after, seen: mcpevents.NewSeen(0, 0), most: maxBatch}
	}
	s.left = memory{}
	return m
}

func (s *Source) keep(m memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = m
}
