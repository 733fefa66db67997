package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// A decisionLog is a store's view of the rows. Package attend's DecisionLog and
// Waiter say what the methods promise.
type decisionLog struct {
	db  *db
	hub *hub[attend.Row]
}

func (l *decisionLog) init(d *db) {
	l.db = d
	l.hub = newHub(d, "{rows}", l.news)
}

// bounds is the log's state, as seen by the statement that it is part of.
func (d *db) bounds() string {
	return `b AS MATERIALIZED (
	SELECT ` + d.epoch() + ` AS epoch, l.trimmed, l.trimmed_verdicts, greatest(l.trimmed, l.trimmed_verdicts,
		(SELECT max(pos) FROM {rows} WHERE type = 'decision'),
		(SELECT max(pos) FROM {rows} WHERE type = 'letter'),
		(SELECT max(pos) FROM {rows} WHERE type = 'verdict')) AS newest
	FROM {logs} l WHERE l.name = 'decisions'
)`
}

// fields are where the columns of bounds go.
func fields(b *attend.Bounds) []any {
	return []any{&b.Epoch, (*position)(&b.Trimmed), (*position)(&b.TrimmedVerdicts), (*position)(&b.Newest)}
}

// Bounds implements [attend.DecisionLog].
func (l *decisionLog) Bounds(ctx context.Context) (b attend.Bounds, err error) {
	err = l.db.call(ctx, "bounds", true, func(ctx context.Context) error {
		err := l.db.pool.QueryRow(ctx, l.db.cfg.named("WITH "+l.db.bounds()+" SELECT * FROM b")).Scan(fields(&b)...)
		return l.db.known(err, "decisions")
	})
	return b, err
}

// known is err, but a clear one where a log's own row is missing.
func (d *db) known(err error, log string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return d.cfg.noRow("{logs}", log)
	}
	return err
}

// Pages of Read: at most so many rows, and about so many bytes of bodies.
const (
	firstRows   = 128
	largestRows = 1024
	pageBytes   = 1 << 20
)

// Read implements [attend.DecisionLog]. Rows that are trimmed before it came to
// them end it with a *TruncatedError, since leaving them out would be silent.
func (l *decisionLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		var seen attend.Bounds // of the page before
		for limit, more := firstRows, true; more; limit = min(2*limit, largestRows) {
			var page []attend.Entry
			var err error
			if page, more, err = l.page(ctx, q, &seen, limit); err != nil {
				yield(attend.Entry{}, err)
				return
			}
			for _, e := range page {
				if q.Wants(e.Type) && q.Prefix.Covers(e.Scope) && !yield(e, nil) {
					return
				}
				q.After = e.Cursor
			}
		}
	}
}

// page reads up to limit rows behind q.After, and reports whether there may be
// more.
func (l *decisionLog) page(ctx context.Context, q attend.Query, seen *attend.Bounds, limit int) (page []attend.Entry, more bool, err error) {
	sql, args := l.pageText(q, limit)
	var now attend.Bounds
	size := 0
	err = l.db.call(ctx, "read", true, func(ctx context.Context) error {
		now, page, size = attend.Bounds{}, page[:0], 0
		rows, err := l.db.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var r rowFields
		_, err = pgx.ForEachRow(rows, append(fields(&now), r.fields()...), func() error {
			if r.pos != nil {
				size += len(r.body)
				page = append(page, r.entry(now.Epoch))
			}
			return nil
		})
		if err == nil && now.Epoch == "" {
			return l.db.cfg.noRow("{logs}", "decisions")
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	check := now
	// What was gone when the read began is no loss to it. It may well be among
	// rows of one class that are older than the trimmed ones of the other.
	if check.Trimmed == seen.Trimmed {
		check.Trimmed = 0
	}
	if check.TrimmedVerdicts == seen.TrimmedVerdicts {
		check.TrimmedVerdicts = 0
	}
	if err := check.Check(q); err != nil {
		return nil, false, fmt.Errorf("postgres: read: %w", err)
	}
	*seen = now
	return page, len(page) == limit || size >= pageBytes, nil
}

// pageText is a read of one page. Rows of each type come from an index that has
// them in order; the merged ones end where their bodies have about a page's
// bytes.
func (l *decisionLog) pageText(q attend.Query, limit int) (sql string, args []any) {
	args = []any{after(q), limit, pageBytes}
	var parts []string
	for _, t := range typesOf(q) {
		where, more := narrow(t, q.Prefix, len(args)+1)
		args = append(args, more...)
		parts = append(parts, `SELECT pos, type, scope, id, at, body FROM {rows} WHERE `+where+` AND pos > $1 ORDER BY pos LIMIT $2`)
	}
	return l.db.cfg.named(`WITH ` + l.db.bounds() + `,
		p AS (SELECT x.*, sum(octet_length(x.body)) OVER (ORDER BY x.pos) - octet_length(x.body) AS before
			FROM (` + merge(parts, "ORDER BY pos LIMIT $2") + `) x)
		SELECT b.*, p.pos, p.type, p.scope, p.id, p.at, p.body FROM b LEFT JOIN p ON p.before < $3 ORDER BY p.pos`), args
}

// merge is the union of ordered selects, in the order of their rows.
func merge(selects []string, order string) string {
	if len(selects) == 1 {
		return selects[0]
	}
	return "(" + strings.Join(selects, ") UNION ALL (") + ") " + order
}

// after is the position that q stands behind. What no row can have is none.
func after(q attend.Query) int64 { return int64(min(q.After.Position, math.MaxInt64)) }

// typesOf is what q asks for, each once, and of those what there can be.
func typesOf(q attend.Query) []attend.RowType {
	var types []attend.RowType
	for _, class := range classes() {
		for _, t := range class {
			if q.Wants(t) {
				types = append(types, t)
			}
		}
	}
	if len(types) == 0 { // nothing is found then, and the cursor still checked
		return slices.Clone(q.Types[:1])
	}
	return types
}
