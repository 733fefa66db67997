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

// Trim implements [attend.DecisionLog]. It goes in steps of 200 rows, and to
// find the newest one that is too old it looks at all that are newer.
func (l *decisionLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	for c, limit := range [...]int{keep.Count, keep.Verdicts} {
		var old attend.Position
		var err error
		if keep.Age > 0 {
			if old, err = l.stale(ctx, c, now.Add(-keep.Age)); err != nil {
				return err
			}
		}
		_, err = l.trimClass(ctx, c, limit, func(r *stored) bool { return r.pos <= old })
		if err != nil {
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
func (l *decisionLog) keep(ctx context.Context, keep attend.Retain) error {
	for c, limit := range [...]int{keep.Count, keep.Verdicts} {
		cutoff := l.newest[c].Load() - keep.Age.Milliseconds()
		_, err := l.trimClass(ctx, c, limit, func(r *stored) bool { return keep.Age > 0 && r.at < cutoff })
		if err != nil {
			return err
		}
	}
	return nil
}

// trimClass deletes the class's oldest rows while there are more than limit, or
// old says so of the oldest, and returns how many.
func (l *decisionLog) trimClass(ctx context.Context, c, limit int, old func(*stored) bool) (deleted int, err error) {
	for {
		n, err := l.trimStep(ctx, c, limit, old)
		deleted += n
		if err != nil || n < trimPage {
			return deleted, err
		}
	}
}

func (l *decisionLog) trimStep(ctx context.Context, c, limit int, old func(*stored) bool) (int, error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	var streams, ids []string
	for _, t := range classes[c] {
		streams, ids = append(streams, l.keys.log(t)), append(ids, l.keys.ids(t))
	}
	p, err := l.link.page(ctx, span{streams: streams, limit: trimPage})
	if err != nil {
		return 0, l.failed(ctx, "trim", err)
	}
	n := surplus(&p, limit, old)
	if n == 0 {
		return 0, nil
	}
	d := deletion{upTo: p.rows[n-1].pos, streams: streams, ids: ids, lists: make(map[string]bool)}
	d.marks = map[string]string{marks[c]: decimal(d.upTo)}
	for i := range p.rows[:n] {
		r := &p.rows[i]
		d.rows = append(d.rows, strconv.Itoa(r.stream+1), r.id, decimal(r.pos))
		for _, level := range levels(attend.Scope(r.scope)) {
			d.lists[l.keys.list(classes[c][r.stream], level)] = true
		}
	}
	if err := l.trim(ctx, &d); err != nil {
		return 0, l.failed(ctx, "trim", err)
	}
	return n, nil
}

// surplus is how many of a page's rows are not to be kept.
func surplus(p *page, limit int, old func(*stored) bool) (n int) {
	if limit > 0 {
		n = min(max(p.count-limit, 0), len(p.rows))
	}
	for n < len(p.rows) && old(&p.rows[n]) {
		n++
	}
	return n
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
