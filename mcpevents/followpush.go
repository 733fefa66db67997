package mcpevents

import (
	"context"
	"errors"
	"slices"
	"time"
)

// maxGatherBytes is where a batch of a stream takes no further event.
const maxGatherBytes = 4 << 20

// A pusher follows one stream.
type pusher struct {
	*follower
	st     *streaming
	next   *Note     // read ahead
	until  time.Time // by when something must come
	active bool
}

// push follows one stream to its end.
func (f *follower) push(ctx, generation context.Context) error {
	st, err := f.s.open(ctx, f.sub, StreamQuery{Cursor: f.cursor, MaxAge: f.f.MaxAge, MaxBuffered: f.f.MaxBuffered})
	if err != nil {
		return err
	}
	defer st.close()
	p := &pusher{follower: f, st: st, until: time.Now().Add(f.f.Open)}
	for {
		n, err := p.await(ctx, generation)
		if errors.Is(err, errChanged) {
			if generation = f.s.catalogue.generation(); p.stays(ctx) {
				continue
			}
			return errChanged
		}
		if err != nil {
			return err
		}
		if err := p.take(n); err != nil {
			return err
		}
	}
}

// stays looks a changed catalogue up, and reports whether the stream is still
// what would be chosen. A type that is gone is left to the server to terminate.
// The time that the look takes is not the stream's.
func (p *pusher) stays(ctx context.Context) bool {
	defer func(began time.Time) { p.until = p.until.Add(time.Since(began)) }(time.Now())
	before := p.d
	if p.describe(ctx, false) != nil {
		p.d = before
		return true
	}
	mode, err := p.choose()
	return err != nil || mode == Push
}

// await returns the next note, and counts the time until one shows that the
// stream is alive.
func (p *pusher) await(ctx context.Context, generation context.Context) (Note, error) {
	if p.next != nil {
		n := *p.next
		p.next = nil
		return n, nil
	}
	silent := ErrIdle
	if !p.active {
		silent = ErrTimeout
	}
	if time.Now().After(p.until) { // although something else comes all the time
		return Note{}, silent
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(generation, func() { cancel(errChanged) })()
	timed, stop := context.WithDeadlineCause(ctx, p.until, silent)
	defer stop()
	return p.st.next(timed)
}

// take acts on one note, and on those events that wait behind it.
func (p *pusher) take(n Note) error {
	if lively(n) {
		defer p.heard()
	}
	p.tellStrays()
	switch n.Kind {
	case NoteActive:
		p.active = true
		p.works()
		cursor := p.behind(n.Cursor)
		if p.st.null {
			cursor = ""
		}
		p.begins = cursor == "" // nothing before can be had any more
		return p.deliver(nil, cursor, n.Truncated)
	case NoteHeartbeat:
		return p.deliver(nil, p.behind(n.Cursor), false)
	case NoteError:
		e, _ := errors.AsType[*Error](n.Err)
		p.f.OnTrouble(&FailureError{e})
	case NoteTerminated:
		e, _ := errors.AsType[*Error](n.Err)
		return &TerminatedError{e}
	case NoteEvent, NoteDropped:
		return p.gather(n)
	}
	return nil
}

// lively reports whether a note shows that the stream is alive.
func lively(n Note) bool {
	d, dropped := errors.AsType[*DroppedError](n.Err)
	return n.Kind != NoteError && (!dropped || d.Reason != DropUnknown && d.Reason != DropUnread)
}

// heard starts the time anew after a note that shows life: once the consumer has
// taken it, since its own time is not the server's.
func (p *pusher) heard() {
	p.until = time.Now().Add(p.f.Open)
	if p.active {
		p.until = time.Now().Add(p.f.Idle)
	}
}

// behind is the position after a message that says c; one that says none moves
// nothing.
func (p *pusher) behind(c Cursor) Cursor {
	if c == "" {
		return p.cursor
	}
	return c
}

// gather makes one batch of an event and of the events and heartbeats that wait
// already. It never waits for more.
func (p *pusher) gather(n Note) error {
	var events []Event
	cursor, size, alive := p.cursor, 0, false
	defer func() {
		if alive {
			p.heard()
		}
	}()
	for notes := 1; ; notes++ {
		alive = alive || lively(n)
		switch n.Kind {
		case NoteEvent:
			events = append(events, n.Event)
			size += p.st.size
		case NoteDropped:
			p.drop(n.Err)
		}
		if n.Cursor != "" {
			cursor = n.Cursor
		}
		if notes >= p.f.MaxEvents || size >= maxGatherBytes || !p.st.ready() {
			break
		}
		more, err := p.st.next(context.Background()) // it waits already
		if err != nil {
			break // comes again
		}
		if !slices.Contains([]NoteKind{NoteEvent, NoteDropped, NoteHeartbeat}, more.Kind) {
			p.next = &more
			break
		}
		n = more
	}
	return p.deliver(events, cursor, false)
}
