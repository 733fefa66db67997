package postgres

import "context"

// aheadPages is how many pages of rows from a clock that was ahead are passed
// over at most, to find older ones behind them.
const aheadPages = 100

// aged is the position up to which retention by age deletes; 0: nothing. page
// selects pos and at of up to $4 rows behind $3, oldest first.
//
// Rows lie in the order in which they were written, but a clock that was put
// right makes their times jump. What goes is always the log's beginning: with a
// hole in it a cursor would not tell that something is gone. So a row from
// before cutoff goes, and those that lie before it and are from after now, by a
// clock that was ahead. The first row from in between ends the search: what lies
// behind it was written later, so that an earlier time is that of a clock that
// was behind.
func (d *db) aged(ctx context.Context, what, page string, cutoff, now int64) (pos int64, err error) {
	sql := d.cfg.named(`WITH p AS MATERIALIZED (` + page + `),
		young AS (SELECT min(pos) AS pos FROM p WHERE at BETWEEN $1 AND $2)
		SELECT coalesce(max(p.pos) FILTER (WHERE p.at < $1), 0),
			CASE WHEN count(y.pos) = 0 AND count(p.pos) = $4 THEN max(p.pos) ELSE 0 END
		FROM young y LEFT JOIN p ON y.pos IS NULL OR p.pos < y.pos`)
	behind := int64(0)
	for ahead := 0; ahead < aheadPages; ahead++ {
		var old, next int64
		err := d.call(ctx, what, true, func(ctx context.Context) error {
			return d.pool.QueryRow(ctx, sql, cutoff, now, behind, trimStep).Scan(&old, &next)
		})
		if err != nil {
			return 0, err
		}
		if old > 0 {
			pos, ahead = old, 0
		}
		if next == 0 {
			break
		}
		behind = next
	}
	return pos, nil
}
