package mcpevents

import (
	"context"
	"time"
)

// maxDrain is how many polls may follow each other at once.
const maxDrain = 100

// poll follows by polls, one after the other.
func (f *follower) poll(ctx context.Context) error {
	generation := f.s.catalogue.generation()
	rounds := 0
	for {
		res, err := f.s.Poll(ctx, f.sub, PollQuery{Cursor: f.cursor, MaxAge: f.f.MaxAge, MaxEvents: f.f.MaxEvents})
		if err != nil {
			return err
		}
		f.works()
		f.tellStrays()
		for _, d := range res.Dropped {
			f.drop(d)
		}
		moved := res.Cursor != f.cursor
		if err := f.deliver(res.Events, res.Cursor, res.Truncated); err != nil {
			return err
		}
		if res.Cursor == "" {
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
		if err := f.pause(ctx, generation, pause); err != nil {
			return err
		}
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
