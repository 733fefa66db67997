package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// trimStep is how many rows one statement deletes.
const trimStep = 1000

// Trim implements [attend.DecisionLog]. It deletes 1,000 rows at a time.
//
// For the age it looks at the oldest rows, 1,000 at a time, and ends where none
// of 1,000 is too old: so it costs what it deletes, and is exact as long as rows
// are not that far out of order.
func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	if err := l.db.ready(ctx, "trim"); err != nil {
		return err
	}
	for c, count := range [2]int{keep.Count, keep.Verdicts} {
		old, err := int64(0), error(nil)
		if keep.Age > 0 {
			old, err = l.stale(ctx, c, now.Add(-keep.Age).UnixMilli())
		}
		if err == nil {
			err = l.trim(ctx, c, count, old, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// retain applies the store's own retention, unless another process does so just
// now. Ages count from the newest row, so no clock is read.
func (s *Store) retain(ctx context.Context) {
	keep := s.cfg.Retain
	for c, count := range [2]int{keep.Count, keep.Verdicts} {
		old, err := s.log.aged(ctx, c, keep.Age)
		if err == nil {
			err = s.log.trim(ctx, c, count, old, " SKIP LOCKED")
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("attend: the decision log could not be trimmed", "err", err)
		}
	}
}

// trim deletes the rows of a class that are more than count, and those up to a
// position.
func (l *decisionLog) trim(ctx context.Context, class, count int, upTo int64, lock string) error {
	if count > 0 {
		surplus, err := l.surplus(ctx, class, count)
		if err != nil {
			return err
		}
		upTo = max(upTo, surplus)
	}
	for upTo > 0 {
		n, turn, err := l.trimRows(ctx, class, upTo, lock)
		if err == nil && !turn && lock == "" {
			err = fmt.Errorf("postgres: trim: %w", l.db.cfg.noRow("{turns} or {logs}", "trim"))
		}
		if err != nil || !turn {
			return err
		}
		if n == trimStep {
			continue
		}
		// What it saw may be from before it had the turn.
		if left, err := l.left(ctx, class, upTo); err != nil || !left {
			return err
		}
	}
	return nil
}

// trimRows deletes the oldest rows of a class up to a position, and says up to
// where, in one statement. Who has no turn, because somebody else trims and lock
// says not to wait, deletes nothing.
func (l *decisionLog) trimRows(ctx context.Context, class int, upTo int64, lock string) (n int, turn bool, err error) {
	mark := [2]string{"trimmed", "trimmed_verdicts"}[class]
	sql := l.db.cfg.named(`WITH turn AS MATERIALIZED (
			SELECT FROM {turns} WHERE name = 'trim' AND EXISTS (SELECT FROM {logs} WHERE name = 'decisions') FOR NO KEY UPDATE` + lock + `
		),
		old AS MATERIALIZED (
			SELECT x.type, x.pos FROM (` + ofClass(class, "type, pos", "pos <= $1 AND (SELECT count(*) FROM turn) > 0", "pos LIMIT $2") + `) x
		),
		gone AS (
			DELETE FROM {rows} r USING old WHERE r.type = old.type AND r.pos = old.pos RETURNING r.pos
		),
		mark AS (
			UPDATE {logs} SET ` + mark + ` = greatest(` + mark + `, (SELECT max(pos) FROM gone))
			WHERE name = 'decisions' AND (SELECT count(*) FROM gone) > 0
		)
		SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM turn) > 0`)
	err = l.db.call(ctx, "trim", true, func(ctx context.Context) error {
		return l.db.pool.QueryRow(ctx, sql, upTo, trimStep).Scan(&n, &turn)
	})
	return n, turn, err
}

// ofClass selects columns of a class's rows, in an order that each type's index
// has.
func ofClass(class int, columns, where, order string) string {
	var parts []string
	for _, t := range classes()[class] {
		parts = append(parts, "SELECT "+columns+" FROM {rows} WHERE type = '"+string(t)+"' AND "+where+" ORDER BY "+order)
	}
	return merge(parts, "ORDER BY "+order)
}

// number asks for one number, 0 where there is none.
func (l *decisionLog) number(ctx context.Context, sql string, args ...any) (n int64, found bool, err error) {
	err = l.db.call(ctx, "trim", true, func(ctx context.Context) error {
		err := l.db.pool.QueryRow(ctx, l.db.cfg.named(sql), args...).Scan(&n)
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return n, found, err
}

// surplusStep is how many rows one statement counts. It has no time for all of a
// large log.
const surplusStep = 100_000

// surplus is the position up to which the class has more than count rows.
func (l *decisionLog) surplus(ctx context.Context, class, count int) (pos int64, err error) {
	sql := "SELECT pos FROM (" + ofClass(class, "pos", "pos < $1", "pos DESC LIMIT $2") + ") x ORDER BY pos DESC OFFSET $2 - 1 LIMIT 1"
	return walk(count, func(before int64, step int) (int64, error) {
		pos, _, err := l.number(ctx, sql, before, step)
		return pos, err
	})
}

// walk goes count rows back from the newest, and to the one before. back is the
// position of the row that is so many steps before another, 0 if there is none.
func walk(count int, back func(before int64, step int) (int64, error)) (pos int64, err error) {
	pos = math.MaxInt64
	for pos > 0 && count > 0 && err == nil {
		step := min(count, surplusStep)
		count -= step
		pos, err = back(pos, step)
	}
	if pos > 0 && err == nil {
		pos, err = back(pos, 1)
	}
	return pos, err
}

// stale is the newest position at which a row is of before cutoff, among the
// oldest rows of the class.
func (l *decisionLog) stale(ctx context.Context, class int, cutoff int64) (pos int64, err error) {
	sql := l.db.cfg.named("SELECT coalesce(max(pos) FILTER (WHERE at < $1), 0), coalesce(max(pos), 0) FROM (" +
		ofClass(class, "pos, at", "pos > $2", "pos LIMIT $3") + ") x")
	for found, last := int64(1), int64(0); found > 0; {
		err := l.db.call(ctx, "trim", true, func(ctx context.Context) error {
			return l.db.pool.QueryRow(ctx, sql, cutoff, last, trimStep).Scan(&found, &last)
		})
		if err != nil {
			return 0, err
		}
		pos = max(pos, found)
	}
	return pos, nil
}

// left reports whether the class has rows up to a position.
func (l *decisionLog) left(ctx context.Context, class int, upTo int64) (bool, error) {
	_, found, err := l.number(ctx, "SELECT pos FROM ("+ofClass(class, "pos", "pos <= $1", "pos LIMIT 1")+") x", upTo)
	return found, err
}

// aged is the position up to which a class's rows are older by age than its
// newest one. 0: none is.
func (l *decisionLog) aged(ctx context.Context, class int, age time.Duration) (pos int64, err error) {
	if age <= 0 {
		return 0, nil
	}
	newest, found, err := l.newestAt(ctx, class)
	if err != nil || !found {
		return 0, err
	}
	return l.db.aged(ctx, "trim", ofClass(class, "pos, at", "pos > $3", "pos LIMIT $4"), newest-age.Milliseconds(), newest)
}

// newestAt is the time of the class's newest row.
func (l *decisionLog) newestAt(ctx context.Context, class int) (at int64, found bool, err error) {
	return l.number(ctx, "SELECT at FROM ("+ofClass(class, "at, pos", "true", "pos DESC LIMIT 1")+") x")
}
