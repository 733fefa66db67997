package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

// trimPage is how many rows are deleted at a time.
const trimPage = 200

// A deletion is what lua/trim.lua takes along: rows up to a position, and what
// points to them.
type deletion struct {
	upTo    attend.Position
	streams []string
	ids     []string          // hashes
	lists   map[string]bool   // keys
	marks   map[string]string // a field of the head, and its position
	rows    []string          // which of ids, id, position
}

func (l *link) trim(ctx context.Context, d *deletion) error {
	keys := append(append([]string{l.head}, d.streams...), d.ids...)
	for list := range d.lists {
		keys = append(keys, list)
	}
	args := []string{schema, decimal(d.upTo), strconv.Itoa(len(d.streams)), strconv.Itoa(len(d.ids)), strconv.Itoa(len(d.marks))}
	for name, pos := range d.marks {
		args = append(args, name, pos)
	}
	_, err := l.run(ctx, trimScript, call{keys, append(args, d.rows...)})
	return err
}

func decimal(p attend.Position) string { return strconv.FormatUint(uint64(p), 10) }

// limits are what is kept of some streams. The zero limits keep everything.
type limits struct {
	count int             // newest rows
	upTo  attend.Position // none of the rows up to here
	// Rows of before cutoff are too old, where aged says so, and those of after
	// now were written by a clock that was ahead.
	aged        bool
	cutoff, now int64
}

// surplus is how many of the oldest rows are not to be kept, as far as a page
// shows, and whether that depends on what is behind it.
//
// Rows lie in the order in which they were written, but their times may not.
// What goes is always the log's beginning: those that are too old, and those
// before them that a clock wrote that was ahead. The first row that is neither
// ends it: an earlier time behind it is that of a clock that was behind.
func (k *limits) surplus(p *page) (n int, open bool) {
	if k.count > 0 {
		n = min(max(p.count-k.count, 0), len(p.rows))
	}
	for i := n; i < len(p.rows); i++ {
		switch r := &p.rows[i]; {
		case r.pos <= k.upTo, k.aged && r.at < k.cutoff:
			n = i + 1
		case !k.aged || r.at <= k.now:
			return n, false
		}
	}
	return n, p.more
}

// aheadPages is how many pages of rows from a clock that was ahead are passed
// over at most, to find older ones behind them.
const aheadPages = 50

// surplus reads the oldest rows of streams: a page, of which the first n are not
// to be kept. It looks at one row first, since mostly there is nothing to do.
func (l *link) surplus(ctx context.Context, streams []string, k limits) (p page, n int, err error) {
	s := span{streams: streams, limit: 1}
	if p, err = l.page(ctx, s); err != nil {
		return p, 0, err
	}
	if n, open := k.surplus(&p); n == 0 && !open {
		return p, 0, nil
	}
	s.limit = trimPage
	if p, err = l.page(ctx, s); err != nil {
		return p, 0, err
	}
	n, open := k.surplus(&p)
	k.count = 0 // what is behind is not the oldest
	for last, pages := p, 0; n == 0 && open && len(last.rows) > 0 && pages < aheadPages; pages++ {
		s.behind = last.rows[len(last.rows)-1].pos
		if last, err = l.page(ctx, s); err != nil {
			return p, 0, err
		}
		var older int
		if older, open = k.surplus(&last); older > 0 {
			n = len(p.rows)
		}
	}
	return p, n, nil
}

// trimAll deletes the oldest rows of streams that are not to be kept, step by
// step, and returns how many. find says what else goes with some.
func (l *link) trimAll(ctx context.Context, streams []string, k limits, find func([]stored) deletion) (deleted int, err error) {
	for more := true; more && err == nil; {
		var n int
		n, more, err = l.trimStep(ctx, streams, k, find)
		deleted += n
	}
	return deleted, err
}

func (l *link) trimStep(ctx context.Context, streams []string, k limits, find func([]stored) deletion) (n int, more bool, err error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return 0, false, err
	}
	defer end()
	p, n, err := l.surplus(ctx, streams, k)
	if err != nil || n == 0 {
		return 0, false, l.failed(ctx, "trim", err)
	}
	d := find(p.rows[:n])
	d.upTo, d.streams = p.rows[n-1].pos, streams
	if err := l.trim(ctx, &d); err != nil {
		return 0, false, l.failed(ctx, "trim", err)
	}
	return n, p.more && n == len(p.rows), nil
}

// Trim implements [attend.DecisionLog]. It goes in steps of at most 200 rows, and
// to find the newest one that is too old it looks at all that are newer.
func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	for c, count := range [...]int{keep.Count, keep.Verdicts} {
		k := limits{count: count}
		if keep.Age > 0 {
			var err error
			if k.upTo, err = l.stale(ctx, c, now.Add(-keep.Age)); err != nil {
				return err
			}
		}
		if _, err := l.trimClass(ctx, c, k); err != nil {
			return err
		}
	}
	return nil
}

// saw notes when a row of this handle happened.
func (l *decisionLog) saw(r *attend.Row) {
	t := typeOf(r.Type)
	for c := range classes {
		if slices.Contains(classes[c], t) {
			l.newest[c].Store(r.At.UnixMilli())
		}
	}
}

// keep applies the store's own retention. Ages count from the newest row, so no
// clock is read, and a log that is replayed from last year's events is not
// emptied.
func (l *decisionLog) keep(ctx context.Context, keep attend.Retain) (deleted int, err error) {
	for c, count := range [...]int{keep.Count, keep.Verdicts} {
		k := limits{count: count}
		if newest := l.newest[c].Load(); newest != 0 && keep.Age > 0 {
			k.aged, k.cutoff, k.now = true, newest-keep.Age.Milliseconds(), newest
		}
		n, err := l.trimClass(ctx, c, k)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// trimClass deletes the class's oldest rows that are not to be kept, and returns
// how many.
func (l *decisionLog) trimClass(ctx context.Context, c int, k limits) (deleted int, err error) {
	if k == (limits{}) {
		return 0, nil
	}
	var streams, ids []string
	for _, t := range classes[c] {
		streams, ids = append(streams, l.keys.log(t)), append(ids, l.keys.ids(t))
	}
	return l.trimAll(ctx, streams, k, func(rows []stored) deletion {
		d := deletion{ids: ids, lists: make(map[string]bool)}
		d.marks = map[string]string{marks[c]: decimal(rows[len(rows)-1].pos)}
		for i := range rows {
			r := &rows[i]
			d.rows = append(d.rows, strconv.Itoa(r.stream+1), r.id, decimal(r.pos))
			for _, level := range levels(attend.Scope(r.scope)) {
				d.lists[l.keys.list(classes[c][r.stream], level)] = true
			}
		}
		return d
	})
}

// stale is the position of the class's newest row from before a moment.
func (l *decisionLog) stale(ctx context.Context, c int, cutoff time.Time) (found attend.Position, err error) {
	for _, t := range classes[c] {
		for from := "+"; from != ""; {
			var p attend.Position
			if p, from, err = l.staleStep(ctx, l.keys.log(t), cutoff, from); err != nil {
				return 0, err
			}
			found = max(found, p)
		}
	}
	return found, nil
}

func (l *decisionLog) staleStep(ctx context.Context, stream string, cutoff time.Time, from string) (attend.Position, string, error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return 0, "", err
	}
	defer end()
	out, err := l.run(ctx, staleScript, call{[]string{l.head, stream}, []string{schema, strconv.FormatInt(cutoff.UnixMilli(), 10), from}})
	if err == nil && len(out) != 3 {
		err = l.refused([]string{""})
	}
	if err != nil {
		return 0, "", l.failed(ctx, "trim", err)
	}
	return position(out[1]), out[2], nil
}
