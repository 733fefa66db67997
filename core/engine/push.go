package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// The limits of one push or batch (E31).
const (
	MaxPushEvents = 10_000
	MaxPushBytes  = 16 << 20
)

// A Receipt says what became of the events of a push.
type Receipt struct {
	New        int // taken in
	Duplicates int // seen before
}

// Push takes events into a scope, all of them or none, and returns once they
// are committed. It waits for no judge, but for a pure one, and for no sink.
//
// An error is attend.ErrInvalid for a bad scope; an [*attend.EventError] for an
// event that breaks a rule or that no kind takes; attend.ErrTooLarge;
// attend.ErrOutboxFull; attend.ErrConflict; ctx's error; or the store's. After
// ctx's or the store's the events may have landed: pushing them again is safe,
// the scope knows those it has seen.
//
// A Push whose commit is under way returns when the store has answered, even if
// ctx ends before.
func (e *Engine) Push(ctx context.Context, scope attend.Scope, events ...attend.Event) (Receipt, error) {
	p, err := e.newPush(scope, events, nil)
	if p == nil {
		return Receipt{}, err
	}
	if err := e.do(ctx, scope, &p.op); err != nil {
		return Receipt{}, err
	}
	return p.receipt(scope)
}

// newPush returns the operation of a push, nil where there is nothing to do or
// something is wrong with it. Where left is set, events that are wrong by
// themselves are added to it and left out.
func (e *Engine) newPush(scope attend.Scope, events []attend.Event, left *[]*attend.EventError) (*push, error) {
	if err := scope.Check(); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	if len(events) > MaxPushEvents {
		return nil, &attend.TooLargeError{Field: "events of a push", Limit: MaxPushEvents}
	}
	p := pushes.Get().(*push)
	if err := p.take(e, events, left); err != nil {
		return nil, err
	}
	if p.events == 0 {
		p.free()
		return nil, nil
	}
	return p, nil
}

// receipt is what became of a push that has its answer. It ends p.
func (p *push) receipt(scope attend.Scope) (Receipt, error) {
	n, repeats, refused := p.events, len(p.eff.Repeats), p.eff.Refused
	p.free()
	if refused {
		return Receipt{}, fmt.Errorf("engine: push to %q: %w", scope, attend.ErrOutboxFull)
	}
	return Receipt{New: n - repeats, Duplicates: repeats}, nil
}

// A push is the operation of Push, in one piece of memory that is used again.
type push struct {
	op
	arrive machine.Arrive
	one    [1]attend.Event // room for events: most pushes have one
}

var pushes = sync.Pool{New: func() any { return new(push) }}

// free takes p back. It has its answer, so nobody else knows it any more: one
// whose caller went away before that is left to whoever answers it.
func (p *push) free() {
	*p = push{}
	pushes.Put(p)
}

// take makes the events of a push valid, and p its operation.
func (p *push) take(e *Engine, events []attend.Event, left *[]*attend.EventError) error {
	clean := p.one[:0]
	if len(events) > len(p.one) {
		clean = make([]attend.Event, 0, len(events))
	}
	now, bytes := time.Now(), 0
	for i := range events {
		v, err := e.pushed(events[i], now)
		if err != nil {
			bad := &attend.EventError{Index: i, Err: err}
			if left == nil {
				return bad
			}
			*left = append(*left, bad)
			continue
		}
		if bytes += v.Size(); bytes > MaxPushBytes {
			return &attend.TooLargeError{Field: "bytes of a push", Limit: MaxPushBytes}
		}
		clean = append(clean, v)
	}
	p.arrive.Events = clean
	p.in, p.events = &p.arrive, len(clean)
	return nil
}

// pushed is intake for an event that no source brings.
func (e *Engine) pushed(v attend.Event, now time.Time) (attend.Event, error) {
	if v.Source != "" {
		return attend.Event{}, &attend.InvalidError{Field: "source", Want: "nothing, for an event that is pushed"}
	}
	return e.intake(v, now)
}

// intake makes an event valid and asks for its kind.
func (e *Engine) intake(v attend.Event, now time.Time) (attend.Event, error) {
	v, err := v.Clean()
	if err != nil {
		return attend.Event{}, err
	}
	if v.At.IsZero() {
		v.At = time.UnixMilli(now.UnixMilli())
	}
	if v.Kind, err = e.kind(v); err != nil {
		return attend.Event{}, err
	}
	return v, nil
}

var errKindPanicked = errors.New("engine: Kind panicked")

func (e *Engine) kind(v attend.Event) (k attend.Kind, err error) {
	defer func() {
		if recover() != nil {
			err = errKindPanicked
		}
	}()
	v.Kind = ""
	if k = e.cfg.Kind(v); !k.Valid() {
		return "", &attend.InvalidError{Field: "kind", Want: "one of the six kinds from Config.Kind"}
	}
	return k, nil
}

// Flush settles what is open or held in a scope now, with reason forced, and
// returns once that is committed. While a window is being judged it is
// remembered. Where there is nothing to settle it does nothing. Errors are
// those of [Engine.Push].
func (e *Engine) Flush(ctx context.Context, scope attend.Scope) error {
	if err := scope.Check(); err != nil {
		return err
	}
	return e.do(ctx, scope, &op{in: machine.Flush{}})
}

// End says that a unit of work is finished: like [Engine.Flush], with reason
// closing, so that the judge may wait.
func (e *Engine) End(ctx context.Context, scope attend.Scope) error {
	if err := scope.Check(); err != nil {
		return err
	}
	return e.do(ctx, scope, &op{in: machine.End{}})
}

// Remove forgets a scope, with work that is not yet done. Its rows stay in the
// log. A source that is attached to it ends with attend.ErrRemoved.
func (e *Engine) Remove(ctx context.Context, scope attend.Scope) error {
	if err := scope.Check(); err != nil {
		return err
	}
	if err := e.store.Remove(ctx, scope); err != nil {
		return fmt.Errorf("engine: remove %q: %w", scope, err)
	}
	if hash := maphash.String(e.seed, string(scope)); len(e.resident(hash)) > 0 {
		e.submit(scope, &op{reload: true}) // what is known of it is over
	}
	return nil
}
