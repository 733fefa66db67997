package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// decisionName is the event that an attend server tells its decisions by.
const decisionName = "attention.decision"

// The pauses between attempts: the first, doubled up to the longest, with jitter;
// and how long an attempt works after which they begin anew.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	worked     = 30 * time.Second
)

// A Decided is a step in following the decisions of an attend server: a decision,
// or only a cursor that moved past what was not asked for.
type Decided struct {
	// Cursor is where to go on once this is dealt with: to be kept. It may stand
	// before the decision, where the server gave none behind it; the decision
	// comes again then.
	Cursor attend.Cursor
	// Truncated tells that decisions before this one are missing: the server does
	// not have them any more, or sent something that can't be read. What is there
	// follows, from the oldest on.
	Truncated bool
	// Decision is nil where there is only a cursor to keep, or Truncated to be
	// told. It is the caller's own.
	Decision *attend.Decision
	// Notice is what an agent is to read about it.
	Notice string
	// EventsCut is how many of the oldest events are left out of its window: a
	// large decision crosses MCP in part. Notice is of all of them.
	EventsCut int
}

// Decisions follows the decisions of an attend server that whoever connects may
// read, from behind a cursor that it gave out; an empty one begins now. It streams
// where the server can, else polls, and goes on from the last cursor over whatever
// breaks, with pauses of 1 to 30 s; a [*mcpevents.Session] can't be replaced, so
// with one it ends when that closes. A decision that comes twice is told once.
//
// The last pair has an error: ctx's, or an [*attend.PermanentError] where the
// server refuses ([Permanent]) or the session closed. InternalError is no refusal,
// since an attend server answers so while its store fails, and while it ends.
func Decisions(ctx context.Context, from Follower, after attend.Cursor) iter.Seq2[Decided, error] {
	return DecisionsConfig{}.Decisions(ctx, from, after)
}

// A DecisionsConfig says which decisions are followed, and how. The zero one
// follows all that may be read.
type DecisionsConfig struct {
	// Scope narrows them to a scope and what is below it. Empty: all.
	Scope attend.Prefix
	// Routes narrows them to some of interrupt, queue, note and ask. Nil: all.
	Routes []attend.Route
	// Mode is the way of delivery to use, and no other. Empty: a webhook where
	// there is a Receiver, else push, else poll, of those that the server has.
	Mode mcpevents.Mode
	// Receiver takes the deliveries of a webhook. Nil: webhooks are not used.
	Receiver *mcpevents.Receiver
	// PollInterval is the time between two polls where the server does not say;
	// default 10 s.
	PollInterval time.Duration
	// OnError hears of what does not end it: why an attempt ended, and what
	// [Config.OnError] hears of. It must not block for long. Nil: nobody hears.
	OnError func(error)
}

// Decisions is the function [Decisions] with these settings. A setting that is
// wrong is an [*attend.PermanentError] that is [attend.ErrInvalid], and the only
// pair.
func (c DecisionsConfig) Decisions(ctx context.Context, from Follower, after attend.Cursor) iter.Seq2[Decided, error] {
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	return func(yield func(Decided, error) bool) {
		args, err := c.arguments()
		single, err := followable(from, err)
		if err != nil {
			yield(Decided{}, attend.Permanent(fmt.Errorf("mcpsource: %w", err)))
			return
		}
		f := &decisionFollower{c: c, from: from, args: args, at: after, seen: mcpevents.NewSeen(0, 0), most: maxBatch, yield: yield}
		for pause := firstPause; ; {
			began := time.Now()
			err := f.attempt(ctx)
			switch {
			case errors.Is(err, errLeft):
				return
			case ctx.Err() != nil:
				yield(Decided{}, context.Cause(ctx))
				return
			case endsDecisions(err, single):
				yield(Decided{}, attend.Permanent(fmt.Errorf("mcpsource: %s: %w", decisionName, err)))
				return
			}
			c.OnError(err)
			if f.came || time.Since(began) >= worked {
				pause = firstPause
			}
			if !rest(ctx, max(pause/2+rand.N(pause/2+1), retryAfter(err))) {
				yield(Decided{}, context.Cause(ctx))
				return
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// arguments are the subscription's.
func (c DecisionsConfig) arguments() (json.RawMessage, error) {
	if c.Scope != "" && attend.Scope(c.Scope).Check() != nil {
		return nil, &attend.InvalidError{Field: "Scope", Want: "at most 512 bytes of UTF-8 without control characters"}
	}
	for _, r := range c.Routes {
		if !r.Delivered() {
			return nil, &attend.InvalidError{Field: "Routes", Want: "interrupt, queue, note or ask"}
		}
	}
	if c.Mode == mcpevents.Webhook && c.Receiver == nil {
		return nil, &attend.InvalidError{Field: "Receiver", Want: "a value, webhooks need one"}
	}
	if c.PollInterval < 0 {
		return nil, &attend.InvalidError{Field: "PollInterval", Want: "a duration that is not negative"}
	}
	return json.Marshal(struct {
		Scope  attend.Prefix  `json:"scope,omitempty"`
		Routes []attend.Route `json:"routes,omitempty"`
	}{c.Scope, c.Routes})
}

// followable reports whether from is one session, and refuses what can't be
// followed on.
func followable(from Follower, err error) (single bool, _ error) {
	session, single := from.(*mcpevents.Session)
	sessions, several := from.(*Sessions)
	if err == nil && (from == nil || single && session == nil || several && (sessions == nil || sessions.dial == nil)) {
		err = &attend.InvalidError{Field: "session", Want: "a value, it is required"}
	}
	return single, err
}

// endsDecisions reports whether another attempt is of no use.
func endsDecisions(err error, single bool) bool {
	if _, ok := errors.AsType[*attend.PermanentError](err); ok {
		return true
	}
	return Permanent(err) || single && errors.Is(err, mcpevents.ErrClosed)
}

// errLeft: the consumer left the loop.
var errLeft = errors.New("mcpsource: the consumer has left")

// A decisionFollower follows decisions over one attempt after the other.
type decisionFollower struct {
	c     DecisionsConfig
	from  Follower
	args  json.RawMessage
	at    attend.Cursor // of the last step that was taken
	seen  *mcpevents.Seen
	most  int  // events that a batch may have
	gap   bool // to be told with the next step
	came  bool // something in this attempt
	yield func(Decided, error) bool
}

// attempt follows until something breaks.
func (f *decisionFollower) attempt(ctx context.Context) error {
	f.came = false
	sub := mcpevents.Subscription{Name: decisionName, Arguments: f.args}
	follow := mcpevents.FollowConfig{
		Mode: f.c.Mode, Receiver: f.c.Receiver, Cursor: mcpevents.Cursor(f.at), MaxEvents: f.most,
		PollInterval: f.c.PollInterval, Seen: f.seen,
		OnTrouble: func(err error) {
			f.gap = f.gap || lost(err)
			f.c.OnError(err)
		},
	}
	for b, err := range f.from.Follow(ctx, sub, follow) {
		if errors.Is(err, mcpevents.ErrTooLarge) {
			f.most = max(f.most/2, 1) // the same question would get the same answer
		}
		if err != nil {
			return err
		}
		if err := f.take(b); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: without an error", mcpevents.ErrEnded)
}

// take hands a batch over, step by step.
func (f *decisionFollower) take(b mcpevents.Batch) error {
	f.gap = f.gap || b.Truncated
	behind := attend.Cursor(b.Cursor)
	if behind == "" {
		behind = f.at
	}
	for i, v := range b.Events {
		step, err := decided(v)
		if err != nil {
			f.gap = true
			f.c.OnError(err)
			continue
		}
		switch {
		case i == len(b.Events)-1:
			step.Cursor = behind
		case v.Cursor != "":
			step.Cursor = attend.Cursor(v.Cursor)
		default:
			step.Cursor = f.at // it comes again from there
		}
		if err := f.hand(step); err != nil {
			return err
		}
	}
	if f.gap || behind != f.at {
		return f.hand(Decided{Cursor: behind})
	}
	return nil
}

func (f *decisionFollower) hand(step Decided) error {
	step.Truncated, f.gap = f.gap, false
	if !f.yield(step, nil) {
		return errLeft
	}
	f.came = f.came || step.Decision != nil
	f.at = step.Cursor
	return nil
}

// errDecision has nothing of what came.
var errDecision error = &attend.InvalidError{Field: "decision of the server", Want: "attend's wire form of one"}

// decided reads a decision.
func decided(v mcpevents.Event) (Decided, error) {
	var d attend.Decision
	var more struct {
		Notice    string `json:"notice"`
		EventsCut int    `json:"eventsCut"`
	}
	if json.Unmarshal(v.Data, &d) != nil || json.Unmarshal(v.Data, &more) != nil || d.ID == "" || d.Scope() == "" {
		return Decided{}, fmt.Errorf("mcpsource: %w", errDecision)
	}
	return Decided{Decision: &d, Notice: more.Notice, EventsCut: more.EventsCut}, nil
}

// rest waits, and reports whether ctx let it.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
