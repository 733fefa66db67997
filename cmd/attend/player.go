package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// A player drives a recording through attend, on the recording's own clock.
type player struct {
	drive  *engine.Drive
	out    printer
	log    *slog.Logger
	table  *table
	scopes map[attend.Scope]struct{}
	start  time.Time // of the recording; zero before its first time
	now    time.Time // the latest time of a line
	buried time.Time // when the last window became a dead letter
}

// newPlayer returns a player with these settings. Store, judge and kinds must be set;
// the rest of what an engine needs is the player's own: decisions and dead
// letters are taken and printed at once.
func newPlayer(cfg engine.Config, out printer, log *slog.Logger) (*player, error) {
	p := &player{out: out, log: log, table: newTable(), scopes: make(map[attend.Scope]struct{})}
	cfg.OmitVerdicts = true
	cfg.Logger = log
	cfg.Observer = p.observe
	cfg.Sink = attend.SinkFunc(func(_ context.Context, d attend.Decision) error {
		p.print(decisionStep(d), d.At)
		return nil
	})
	cfg.DeadLetter = attend.LetterFunc(func(_ context.Context, l attend.DeadLetter) error {
		p.print(letterStep(l), p.buried)
		return nil
	})
	var err error
	p.drive, err = engine.NewDrive(cfg)
	return p, err
}

func (p *player) observe(t attend.Trace) {
	if l, ok := t.(attend.DeadLettered); ok {
		p.buried = l.At // its handler is called next
	}
	if s, at, ok := stepOf(t); ok {
		p.print(s, at)
	}
}

func (p *player) print(s step, at time.Time) {
	s.At = at.UnixMilli()
	s.SinceMs = at.Sub(p.start).Milliseconds()
	p.table.add(s)
	p.out.step(s)
}

// play takes in all lines of a recording, and then all that is still to happen.
// wait is called when more input may be long in coming; its error ends the play.
func (p *player) play(ctx context.Context, lines *lineReader, wait func() error) error {
	for {
		if lines.waits() {
			if err := wait(); err != nil {
				return err
			}
		}
		b, err := lines.next()
		if errors.Is(err, io.EOF) {
			return p.settle(ctx)
		}
		if err != nil && !errors.Is(err, attend.ErrTooLarge) {
			return err
		}
		p.table.Lines++
		var l line
		if err == nil {
			l, err = decodeLine(b)
		}
		if err == nil {
			err = p.take(ctx, l)
		}
		if err != nil && !refused(err) {
			return err
		}
		if err != nil {
			p.table.Rejected++
			p.log.Warn("line rejected", "line", lines.number, "err", reason(err))
		}
	}
}

// refused reports whether an error is about one line alone.
func refused(err error) bool {
	return errors.Is(err, attend.ErrInvalid) || errors.Is(err, attend.ErrTooLarge) || errors.Is(err, attend.ErrOutboxFull)
}

// take takes in one line, after all that was due by its time.
func (p *player) take(ctx context.Context, l line) error {
	if err := p.advance(ctx, l); err != nil {
		return err
	}
	var err error
	switch l.verb {
	case verbFlush:
		p.table.Flushes++
		err = p.drive.Flush(ctx, p.now, l.scope)
	case verbEnd:
		p.table.Ends++
		err = p.drive.End(ctx, p.now, l.scope)
	default:
		var r engine.Receipt
		r, err = p.drive.Push(ctx, p.now, l.scope, l.event)
		if err == nil {
			p.table.Events += r.New
			p.table.Duplicates += r.Duplicates
		}
	}
	if err == nil {
		p.scopes[l.scope] = struct{}{}
	}
	return err
}

// advance moves the clock to a line's time. It never goes back, and a line
// without a time happens with the one before it.
func (p *player) advance(ctx context.Context, l line) error {
	switch {
	case l.at.IsZero() && p.start.IsZero():
		return &attend.InvalidError{Field: "at", Want: "a time, since no line before has one"}
	case l.at.IsZero():
		return nil
	case p.start.IsZero():
		p.start, p.now = l.at, l.at
	case l.at.Before(p.now):
		p.table.OutOfOrder++
	}
	if l.at.After(p.now) {
		p.now = l.at
	}
	return p.drive.Advance(ctx, p.now)
}

// settle lets happen what is still to happen once the recording has ended:
// deadlines, held windows, retries. That a scope is forgotten long after is left
// out.
func (p *player) settle(ctx context.Context) error {
	for {
		var last time.Time
		unsettled := 0
		for scope := range p.scopes {
			s, err := p.drive.State(ctx, scope)
			if err != nil {
				return err
			}
			if next := s.Next(); next.After(last) {
				last = next
			}
			unsettled += len(s.Window().Events)
		}
		if last.IsZero() {
			p.table.Unsettled = unsettled
			p.table.Scopes = len(p.scopes)
			return nil
		}
		if err := p.drive.Advance(ctx, last); err != nil {
			return err
		}
	}
}

// result is what the replay came to.
func (p *player) result(maxPerHour *float64) (*table, error) {
	if !p.start.IsZero() {
		p.table.From, p.table.To = p.start.UnixMilli(), p.now.UnixMilli()
		p.table.SpanMs = p.now.Sub(p.start).Milliseconds()
	}
	return p.table, p.table.finish(maxPerHour)
}
