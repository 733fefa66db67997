package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxDrain is how many polls may follow each other at once.
const maxDrain = 100

// poll follows by polls, one after the other. An answer that is too large, or does
// not come in time, is asked for again in halves.
func (f *follower) poll(ctx, generation context.Context) error {
	rounds := 0
	for {
		if wait := time.Until(f.next); wait > 0 {
			if err := f.pause(ctx, generation, wait); err != nil {
				return err
			}
		}
		res, err := f.s.Poll(ctx, f.sub, PollQuery{Cursor: f.cursor, MaxAge: f.f.MaxAge, MaxEvents: f.most})
		if large := errors.Is(err, ErrTooLarge); (large || errors.Is(err, ErrTimeout)) && f.most > 1 {
			f.most /= 2
			if large {
				f.f.OnTrouble(err)
				f.next = time.Now().Add(f.f.PollFloor)
				continue
			}
		}
		if err != nil {
			return err
		}
		if !res.More {
			f.most = f.f.MaxEvents
		}
		f.works()
		f.tellStrays()
		for _, d := range res.Dropped {
			f.drop(d)
		}
		cursor := res.Cursor
		if res.empty { // it says nothing, so that what is known stays
			f.f.OnTrouble(fmt.Errorf("%w: a cursor is empty", ErrProtocol))
			cursor = f.cursor
		}
		moved := cursor != f.cursor
		if err := f.deliver(res.Events, cursor, res.Truncated); err != nil {
			return err
		}
		if res.Cursor == "" && !res.empty {
			return ErrNoReplay
		}
		if rounds++; res.More && moved && rounds < maxDrain {
			continue
		}
		rounds = 0
		pause := f.f.PollFloor
		if !res.More && res.NextPoll >= 0 {
			pause = max(pause, res.NextPoll)
		} else if !res.More {
			pause = max(pause, f.f.PollInterval)
		}
		f.next = time.Now().Add(pause)
	}
}

// pause waits between two polls. It ends early when the catalogue changes, or the
// session does.
func (f *follower) pause(ctx, generation context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.s.Done():
		return f.s.Err()
	case <-generation.Done():
		return errChanged
	}
}
