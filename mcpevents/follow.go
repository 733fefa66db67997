package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Follow yields the events of one subscription for as long as this session can.
// It reads the catalogue, chooses a mode, and keeps to the subscription: it polls
// at the pace that the server asks for, or reads one stream and watches that it
// is alive. What is delivered twice is dropped, cursors are handed on, and gaps
// are told by [Batch.Truncated].
//
// It ends with a typed error as the last pair, whenever something is to be waited
// for or decided: [TerminatedError], [Error], [ErrEnded], [ErrIdle],
// [ErrOverflow], [ErrClosed], [ErrNoMode] and others of this package, or that of
// ctx. [Permanent] tells whether another try is of use; it starts from the cursor
// of the last batch that was taken. [Client.Follow] does all that.
//
// A consumer that leaves the loop does not unsubscribe from a webhook: the server
// goes on trying until the grant ends, or until [Session.Unsubscribe].
//
// On the way it does alone what needs no wait: where a mode is refused as one that
// is not offered, it takes the next one that is listed, if none is asked for; a type that changed or went is
// looked up again, and subscribed to once more if it is there; a cursor that is
// refused is given up for one from now on, with a gap.
func (s *Session) Follow(ctx context.Context, sub Subscription, f FollowConfig) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		fo := newFollower(sub, f, func(b Batch) bool { return yield(b, nil) })
		defer fo.f.Receiver.leave(fo)
		if err := fo.run(ctx, s); !errors.Is(err, errLeft) {
			yield(Batch{}, err)
		}
	}
}

// errLeft: the consumer left the loop. errChanged: the catalogue changed.
var (
	errLeft    = errors.New("mcpevents: the consumer has left")
	errChanged = errors.New("mcpevents: the catalogue has changed")
)

// retryPause is the least time between two times that a follower subscribes again
// by itself, or gives up a cursor.
const retryPause = time.Minute

// A follower follows one subscription, over one session after the other.
type follower struct {
	sub   Subscription
	f     FollowConfig
	yield func(Batch) bool

	s       *Session
	d       Descriptor
	check   payloadCheck
	cursor  Cursor // where to go on
	told    Cursor // of the last batch that was taken
	begins  bool   // from now, which the consumer is told though there is nothing in the batch
	gap     bool   // to be told with the next batch
	dropped int
	cause   error     // why the type is looked up again
	healed  time.Time // when it last gave up a cursor
	retried time.Time // when it last subscribed again
	next    time.Time // before which it does not poll
	most    int       // what a poll asks for
	live    time.Time // since when this attempt works; zero: it does not
	took    bool      // this attempt brought events
	strays  chan string
}

// maxStrays is how many strays wait to be told.
const maxStrays = 16

func newFollower(sub Subscription, f FollowConfig, yield func(Batch) bool) *follower {
	f = f.withDefaults()
	return &follower{sub: sub, f: f, yield: yield, cursor: f.Cursor, told: f.Cursor, most: f.MaxEvents, strays: make(chan string, maxStrays)}
}

// run follows on one session until something ends that.
func (f *follower) run(ctx context.Context, s *Session) error {
	f.s, f.live, f.took, f.cause = s, time.Time{}, false, nil
	if !s.offered {
		return ErrNotOffered
	}
	if _, err := Canonical(f.sub.Arguments); err != nil {
		return err
	}
	s.watch()
	defer s.hearStrays(f.strays)()
	defer f.tellStrays()
	anew := false
	for {
		generation := s.catalogue.generation() // before the look, so that no change is missed
		if err := f.describe(ctx, anew); err != nil {
			return err
		}
		mode, err := f.choose()
		if err != nil {
			return err
		}
		if mode != Webhook {
			f.f.Receiver.leave(f) // what waits there is of a subscription that is over
		}
		switch mode {
		case Webhook:
			err = f.webhook(ctx, generation, f.f.Receiver)
		case Push:
			err = f.push(ctx, generation)
		default:
			err = f.poll(ctx, generation)
		}
		if anew, err = f.settle(mode, err); err != nil {
			return err
		}
	}
}

// settle decides about the end of a mode: whether to choose again, and from a
// catalogue that is read anew, or to end with an error.
func (f *follower) settle(mode Mode, err error) (anew bool, _ error) {
	if errors.Is(err, errChanged) {
		return false, nil
	}
	_, terminated := errors.AsType[*TerminatedError](err)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind == "" {
		return false, err
	}
	switch {
	case e.Kind == Unsupported && e.member("reason") == "schema_changed",
		e.Kind == Unsupported && e.member("feature") == "deliveryMode" && terminated && f.f.Mode == "",
		e.Kind == NotFound && (e.member("kind") == "event" || e.member("kind") == ""):
		f.cause = err
		return true, once(&f.retried, err)
	case terminated:
		return false, err
	case f.f.Mode == "" && mode != Poll &&
		(e.Kind == Unsupported && (e.member("feature") == "deliveryMode" || len(e.Data) == 0) || e.Kind == MethodNotFound):
		f.s.catalogue.refuse(f.sub.Name, mode)
		if _, none := f.choose(); none != nil {
			return false, err
		}
		return false, nil
	case e.Kind == InvalidParams && f.cursor != "" && e.aboutCursor():
		if once(&f.healed, err) == nil {
			f.cursor, f.gap = "", true
			return false, nil
		}
	}
	return false, err
}

// once allows one more try, and not soon another: then it returns err.
func once(last *time.Time, err error) error {
	if !last.IsZero() && time.Since(*last) < retryPause {
		return err
	}
	*last = time.Now()
	return nil
}

// describe looks the type up.
func (f *follower) describe(ctx context.Context, anew bool) error {
	d, known, err := f.s.describe(ctx, f.sub.Name, anew)
	if err != nil {
		return err
	}
	if !known && f.cause != nil {
		return f.cause
	}
	if !known {
		return fmt.Errorf("%w: the server does not list the type", ErrNoMode)
	}
	f.d, f.cause = d, nil
	if !f.check.of(d.Payload) {
		f.check = newPayloadCheck(d.Payload)
	}
	return nil
}

func (f *follower) offers(m Mode) bool { return slices.Contains(f.d.Delivery, m) }

// usable reports whether a mode that is listed can be had here.
func (f *follower) usable(m Mode) bool {
	switch m {
	case Webhook:
		return f.offers(m) && f.f.Receiver != nil
	case Push:
		return f.offers(m) && f.s.streams()
	case Poll:
		return f.offers(m)
	}
	return false
}

// choose picks the mode: the one that is asked for, or the best that can be had.
func (f *follower) choose() (Mode, error) {
	if m := f.f.Mode; m != "" {
		if !f.usable(m) {
			return "", fmt.Errorf("%w: %q is asked for", ErrNoMode, m)
		}
		return m, nil
	}
	for _, m := range []Mode{Webhook, Push, Poll} {
		if f.usable(m) && !f.s.catalogue.refused(f.sub.Name, m) {
			return m, nil
		}
	}
	return "", ErrNoMode
}

// deliver hands a batch over, if there is anything in it, and afterwards holds
// its events for taken.
func (f *follower) deliver(events []Event, cursor Cursor, truncated bool) error {
	fresh, taken := make([]Event, 0, len(events)), make([]string, 0, len(events))
	batch := map[string]bool{}
	for _, v := range events {
		if batch[v.ID] || f.f.Seen.Has(v.ID) {
			continue
		}
		batch[v.ID] = true
		taken = append(taken, v.ID) // the consumer may change its events
		if !f.check.conforms(v.Data) {
			v.Mismatch = true
			f.f.OnTrouble(&MismatchError{v.ID})
		}
		fresh = append(fresh, v)
	}
	b := Batch{Events: fresh, Cursor: cursor, Truncated: truncated || f.gap, Dropped: f.dropped}
	if len(fresh) == 0 && !b.Truncated && cursor == f.told && !f.begins {
		f.cursor = cursor
		return nil
	}
	f.gap, f.dropped, f.begins = false, 0, false
	for _, v := range taken { // so that what is kept with the batch has it
		f.f.Seen.Add(v)
	}
	left := true
	defer func() {
		if left { // or panicked
			for _, v := range taken {
				f.f.Seen.remove(v)
			}
		}
	}()
	if !f.yield(b) {
		return errLeft
	}
	left = false
	f.took = f.took || len(taken) > 0
	f.cursor, f.told = cursor, cursor
	return nil
}

// drop counts what nobody gets.
func (f *follower) drop(err error) {
	f.dropped++
	f.f.OnTrouble(err)
}

// works notes that this attempt came through to events.
func (f *follower) works() {
	if f.live.IsZero() {
		f.live = time.Now()
	}
}

// tellStrays tells of the strays that came meanwhile.
func (f *follower) tellStrays() {
	for {
		select {
		case method := <-f.strays:
			f.f.OnTrouble(&StrayError{label(method)})
		default:
			return
		}
	}
}
