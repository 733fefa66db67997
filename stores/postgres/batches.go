package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// The most that a batch holds.
const (
	batchEvents = 1000
	batchBytes  = 1 << 20
)

// eventBounds is the event log's state, and up to where the scope $1 was
// trimmed, as seen by the statement that it is part of.
func (d *db) eventBounds() string {
	return `b AS MATERIALIZED (
	SELECT ` + d.epoch() + ` AS epoch, greatest(l.trimmed, (SELECT max(pos) FROM {events})) AS newest,
		coalesce((SELECT s.trimmed FROM {streams} s WHERE s.scope = $1), 0) AS trimmed
	FROM {logs} l WHERE l.name = 'events'
)`
}

// A stream is the state of one scope's events.
type stream struct {
	epoch           string
	newest, trimmed int64
}

func (s *stream) fields() []any { return []any{&s.epoch, &s.newest, &s.trimmed} }

// place is where to read on behind a cursor. It is not ok when events behind it
// are gone, or it is no cursor of this log; reading goes on from the oldest kept
// then.
func (s *stream) place(after attend.Cursor) (pos int64, ok bool) {
	c, err := attend.ParseLogCursor(string(after))
	switch {
	case after == "":
		return s.trimmed, true
	case err != nil, c.Epoch != s.epoch, c.Position > attend.Position(s.newest), c.Position < attend.Position(s.trimmed):
		return s.trimmed, false
	}
	return int64(c.Position), true
}

// from is the position in a cursor, as far as one can be read from it.
func from(after attend.Cursor) int64 {
	c, _ := attend.ParseLogCursor(string(after)) // what is none stands before everything
	return int64(min(c.Position, math.MaxInt64))
}

// Batches yields what the scope's log holds, as [attend.EventLog] says. Where
// events are trimmed before it came to them, a later batch has Gap set too.
func (l *EventLog) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for more := true; more; {
			var b attend.Batch
			var err error
			if b, more, err = l.batch(ctx, scope, after); err != nil {
				yield(attend.Batch{}, err)
				return
			}
			if len(b.Events) == 0 && !b.Gap || !yield(b, nil) {
				return
			}
			after = b.Cursor
		}
	}
}

// batch reads what is behind a cursor, and reports whether there may be more. A
// cursor that is none of the scope's is known only once it was asked for; what
// is kept is then read again from the start.
func (l *EventLog) batch(ctx context.Context, scope attend.Scope, after attend.Cursor) (b attend.Batch, more bool, err error) {
	pos := from(after)
	s, events, last, more, err := l.page(ctx, scope, pos)
	if err != nil {
		return b, false, err
	}
	at, ok := s.place(after)
	if !ok && at < pos {
		if s, events, last, more, err = l.page(ctx, scope, at); err != nil {
			return b, false, err
		}
		at = s.trimmed
	}
	b = attend.Batch{Events: events, Gap: !ok}
	b.Cursor = attend.Cursor(attend.LogCursor{Epoch: s.epoch, Position: attend.Position(max(at, last))}.String())
	return b, more, nil
}

// page reads up to a batch of a scope's events behind a position, with the last
// one's, and reports whether there may be more.
func (l *EventLog) page(ctx context.Context, scope attend.Scope, pos int64) (s stream, events []attend.Event, last int64, more bool, err error) {
	sql := l.cfg.named(`WITH ` + l.eventBounds() + `,
		p AS (SELECT x.*, sum(octet_length(x.body)) OVER (ORDER BY x.pos) AS bytes,
				row_number() OVER (ORDER BY x.pos) AS n, count(*) OVER () AS total
			FROM (SELECT pos, body FROM {events} WHERE scope = $1 AND pos > $2 ORDER BY pos LIMIT $3) x)
		SELECT b.*, p.pos, p.body, p.total FROM b LEFT JOIN p ON p.n = 1 OR p.bytes <= $4 ORDER BY p.pos`)
	err = l.call(ctx, "read events", true, func(ctx context.Context) error {
		events, last, more = events[:0], 0, false
		rows, err := l.pool.Query(ctx, sql, nameOf(scope), pos, batchEvents, batchBytes)
		if err != nil {
			return err
		}
		var at, total *int64
		var body []byte
		_, err = pgx.ForEachRow(rows, append(s.fields(), &at, &body, &total), func() error {
			if at == nil {
				return nil
			}
			var e attend.Event
			if err := json.Unmarshal(body, &e); err != nil {
				return fmt.Errorf("the event at position %d: %w", *at, attend.ErrCorrupt)
			}
			events, last = append(events, e), *at
			more = *total == batchEvents || *total > int64(len(events))
			return nil
		})
		if err == nil && s.epoch == "" {
			return l.cfg.noRow("{logs}", "events")
		}
		return err
	})
	return s, events, last, more, err
}

// WaitEvents blocks until there may be more, as [attend.EventWaiter] says.
func (l *EventLog) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	pos := from(after)
	w := &waiter[attend.Scope]{
		wants: func(s *attend.Scope) bool { return *s == scope },
		lost:  func(*news[attend.Scope]) bool { return false }, // what is trimmed was news before
		after: pos,
	}
	return l.hub.wait(ctx, "wait for events", w, func() (ready bool, at place, err error) {
		var s stream
		err = l.call(ctx, "wait for events", true, func(ctx context.Context) error {
			err := l.pool.QueryRow(ctx, l.cfg.named(`WITH `+l.eventBounds()+`
				SELECT b.*, EXISTS (SELECT FROM {events} WHERE scope = $1 AND pos > $2) FROM b`),
				nameOf(scope), pos).Scan(append(s.fields(), &ready)...)
			return l.known(err, "events")
		})
		_, ok := s.place(after)
		return ready || !ok, place{s.epoch, s.newest}, err
	})
}

// news is what the log has behind a position: scopes alone.
func (l *EventLog) news(ctx context.Context, after int64) (n news[attend.Scope], err error) {
	sql := l.cfg.named(`SELECT ` + l.epoch() + `, greatest(l.trimmed, (SELECT max(pos) FROM {events})), l.trimmed, p.*
		FROM {logs} l LEFT JOIN (SELECT pos, scope FROM {events} WHERE pos > $1 ORDER BY pos LIMIT $2) p ON true
		WHERE l.name = 'events' ORDER BY p.pos`)
	err = l.call(ctx, "wait for events", true, func(ctx context.Context) error {
		n = news[attend.Scope]{}
		rows, err := l.pool.Query(ctx, sql, after, lookRows)
		if err != nil {
			return err
		}
		var pos *int64
		var scope *string
		_, err = pgx.ForEachRow(rows, []any{&n.epoch, &n.newest, &n.trimmed, &pos, &scope}, func() error {
			if pos != nil {
				n.rows, n.places = append(n.rows, attend.Scope(*scope)), append(n.places, *pos)
			}
			return nil
		})
		n.more = len(n.rows) == lookRows
		return err
	})
	return n, err
}
