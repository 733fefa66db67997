package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	attend "github.com/attend-go/attend/core"
)

// rowFields are a row's columns, all NULL where there is none.
type rowFields struct {
	pos, at         *int64
	typ, scope, dec *string
	body            []byte
}

func (r *rowFields) fields() []any {
	return []any{&r.pos, &r.typ, &r.scope, &r.dec, &r.at, &r.body}
}

func (r *rowFields) entry(epoch string) attend.Entry {
	return attend.Entry{
		Cursor: attend.LogCursor{Epoch: epoch, Position: attend.Position(*r.pos)},
		Row: attend.Row{
			Scope: attend.Scope(*r.scope), ID: attend.DecisionID(*r.dec), Type: attend.RowType(*r.typ),
			At: time.UnixMilli(*r.at), Body: r.body,
		},
	}
}

// Find implements [attend.DecisionLog].
func (l *decisionLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	if !validText(string(id)) || classOf(t) < 0 {
		return attend.Entry{}, l.db.call(ctx, "find", true, func(context.Context) error { return attend.ErrNotFound })
	}
	var e string
	var r rowFields
	err := l.db.call(ctx, "find", true, func(ctx context.Context) error {
		err := l.db.pool.QueryRow(ctx, l.db.cfg.named(`SELECT `+l.db.epoch()+`, r.* FROM {logs} l LEFT JOIN (
				SELECT pos, type, scope, id, at, body FROM {rows} WHERE id = $1 AND type = $2 ORDER BY pos DESC LIMIT 1
			) r ON true WHERE l.name = 'decisions'`), string(id), string(t)).Scan(append([]any{&e}, r.fields()...)...)
		if err == nil && r.pos == nil {
			return attend.ErrNotFound
		}
		return l.db.known(err, "decisions")
	})
	if err != nil {
		return attend.Entry{}, err
	}
	return r.entry(e), nil
}

// A position is scanned from a bigint.
type position attend.Position

// ScanInt64 implements pgtype.Int64Scanner.
func (p *position) ScanInt64(v pgtype.Int8) error {
	*p = position(v.Int64)
	return nil
}
