package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
)

// An EventLog is an [attend.EventLog] and an [attend.EventWaiter] in
// PostgreSQL, one of any number on the same tables, in this process and in
// others. Its methods may be called from many goroutines at once; what they
// append at the same time becomes one statement.
type EventLog struct {
	*db
	hub    *hub[attend.Scope]
	queue  appendQueue
	keeper *keeper // nil: everything is kept
}

// OpenEventLog returns the event log on the tables that [Migrate] made; see
// [Open]. It may share its prefix with a [Store].
func OpenEventLog(ctx context.Context, url string, c Config) (*EventLog, error) {
	d, err := openURL(ctx, url, c)
	if err != nil {
		return nil, fmt.Errorf("postgres: open event log: %w", err)
	}
	return newEventLog(d), nil
}

// NewEventLog is [OpenEventLog] on the caller's pool; see [New].
func NewEventLog(ctx context.Context, pool *pgxpool.Pool, c Config) (*EventLog, error) {
	d, err := open(ctx, pool, c)
	if err != nil {
		return nil, fmt.Errorf("postgres: open event log: %w", err)
	}
	return newEventLog(d), nil
}

func newEventLog(d *db) *EventLog {
	l := &EventLog{db: d}
	l.hub = newHub(d, "{events}", l.news)
	if keep := d.cfg.Retain; keep.Count > 0 || keep.Age > 0 {
		l.keeper = newKeeper(keep.Count)
		l.start(func(ctx context.Context) { l.keeper.run(ctx, l.retain) })
	}
	return l
}

// Close ends this log and what it does in the background; see [Store.Close].
func (l *EventLog) Close() error {
	l.close()
	return nil
}

// retain deletes the events that are not kept, oldest first, and leaves a mark
// in each scope of up to where they are gone. One process does so at a time.
func (l *EventLog) retain(ctx context.Context) {
	upTo, err := l.surplus(ctx)
	if err == nil && l.cfg.Retain.Age > 0 {
		var old int64
		old, err = l.aged(ctx, "trim events", agesOfEvents, -l.cfg.Retain.Age.Milliseconds(), 0)
		upTo = max(upTo, old)
	}
	for n := trimStep; err == nil && upTo > 0 && n == trimStep; {
		n, err = l.trim(ctx, upTo)
	}
	if err != nil && ctx.Err() == nil {
		l.cfg.Logger.Warn("attend: the event log could not be trimmed", "err", err)
	}
}

// agesOfEvents is a page for aged. Its times are reckoned from the server's
// clock, which is one for all processes.
const agesOfEvents = `SELECT pos, taken - (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS at
	FROM {events} WHERE pos > $3 ORDER BY pos LIMIT $4`

// surplus is the position up to which there are more events than are kept.
func (l *EventLog) surplus(ctx context.Context) (pos int64, err error) {
	if l.cfg.Retain.Count <= 0 {
		return 0, nil
	}
	sql := l.cfg.named(`SELECT coalesce((SELECT pos FROM {events} WHERE pos < $1 ORDER BY pos DESC OFFSET $2 - 1 LIMIT 1), 0)`)
	return walk(l.cfg.Retain.Count, func(before int64, step int) (pos int64, err error) {
		err = l.call(ctx, "trim events", true, func(ctx context.Context) error {
			return l.pool.QueryRow(ctx, sql, before, step).Scan(&pos)
		})
		return pos, err
	})
}

// trim deletes up to 1,000 of the oldest events up to a position.
func (l *EventLog) trim(ctx context.Context, upTo int64) (n int, err error) {
	sql := l.cfg.named(`WITH turn AS MATERIALIZED (
			SELECT FROM {turns} WHERE name = 'trim-events' AND EXISTS (SELECT FROM {logs} WHERE name = 'events') FOR NO KEY UPDATE SKIP LOCKED
		),
		old AS MATERIALIZED (
			SELECT pos FROM {events} WHERE pos <= $1 AND (SELECT count(*) FROM turn) > 0 ORDER BY pos LIMIT $2
		),
		gone AS (DELETE FROM {events} e USING old WHERE e.pos = old.pos RETURNING e.pos, e.scope),
		marks AS (
			INSERT INTO {streams} AS s (scope, trimmed) SELECT scope, max(pos) FROM gone GROUP BY scope
			ON CONFLICT (scope) DO UPDATE SET trimmed = greatest(s.trimmed, excluded.trimmed)
		),
		mark AS (
			UPDATE {logs} SET trimmed = greatest(trimmed, (SELECT max(pos) FROM gone))
			WHERE name = 'events' AND (SELECT count(*) FROM gone) > 0
		)
		SELECT count(*) FROM gone`)
	err = l.call(ctx, "trim events", true, func(ctx context.Context) error {
		return l.pool.QueryRow(ctx, sql, upTo, trimStep).Scan(&n)
	})
	return n, err
}

// serverMillis is the server's clock, which is one for all processes.
const serverMillis = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
