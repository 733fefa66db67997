package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// Wait implements [attend.Waiter].
func (l *decisionLog) Wait(ctx context.Context, q attend.Query) error {
	sql, args := l.waitText(q)
	w := &waiter[attend.Row]{
		wants: func(r *attend.Row) bool { return q.Wants(r.Type) && q.Prefix.Covers(r.Scope) },
		lost:  func(n *news[attend.Row]) bool { return n.bounds.Check(q) != nil },
		after: after(q),
	}
	return l.hub.wait(ctx, "wait", w, func() (ready bool, at place, err error) {
		var b attend.Bounds
		err = l.db.call(ctx, "wait", true, func(ctx context.Context) error {
			return l.db.known(l.db.pool.QueryRow(ctx, sql, args...).Scan(append(fields(&b), &ready)...), "decisions")
		})
		return ready || b.Check(q) != nil, place{b.Epoch, int64(b.Newest)}, err
	})
}

// waitText asks whether there is a row for q.
func (l *decisionLog) waitText(q attend.Query) (sql string, args []any) {
	args = []any{after(q)}
	var parts []string
	for _, t := range typesOf(q) {
		where, more := narrow(t, q.Prefix, len(args)+1)
		args = append(args, more...)
		parts = append(parts, `EXISTS (SELECT FROM {rows} WHERE `+where+` AND pos > $1)`)
	}
	return l.db.cfg.named(`WITH ` + l.db.bounds() + ` SELECT b.*, ` + strings.Join(parts, " OR ") + ` FROM b`), args
}

// lookRows is how many rows a hub asks for at a time.
const lookRows = 1000

// news is what the log has behind a position: types and scopes alone.
func (l *decisionLog) news(ctx context.Context, after int64) (n news[attend.Row], err error) {
	var parts []string
	for _, class := range classes() {
		for _, t := range class {
			parts = append(parts, `SELECT pos, type, scope FROM {rows} WHERE type = '`+string(t)+`' AND pos > $1 ORDER BY pos LIMIT $2`)
		}
	}
	sql := l.db.cfg.named(`WITH ` + l.db.bounds() + ` SELECT b.*, p.* FROM b
		LEFT JOIN (` + merge(parts, "ORDER BY pos LIMIT $2") + `) p ON true ORDER BY p.pos`)
	err = l.db.call(ctx, "wait", true, func(ctx context.Context) error {
		n = news[attend.Row]{}
		rows, err := l.db.pool.Query(ctx, sql, after, lookRows)
		if err != nil {
			return err
		}
		var b attend.Bounds
		var pos *int64
		var typ, scope *string
		_, err = pgx.ForEachRow(rows, append(fields(&b), &pos, &typ, &scope), func() error {
			n.bounds, n.epoch, n.newest, n.trimmed = b, b.Epoch, int64(b.Newest), int64(max(b.Trimmed, b.TrimmedVerdicts))
			if pos != nil {
				n.rows = append(n.rows, attend.Row{Type: attend.RowType(*typ), Scope: attend.Scope(*scope)})
				n.places = append(n.places, *pos)
			}
			return nil
		})
		n.more = len(n.rows) == lookRows
		return err
	})
	return n, err
}
