package conformance

import (
	"fmt"
	"maps"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// deliveries checks that what was delivered was decided, that what was decided
// was delivered, and that the log says so once.
func (a *killAudit) deliveries() error {
	for _, id := range slices.Sorted(maps.Keys(a.book.taken)) {
		t := a.book.taken[id]
		if len(a.decisions[id]) > 0 {
			continue
		}
		if why := a.mayLose(t.made, t.at); why != "" {
			a.breaks("decision %s of %.60q was delivered at %s, by child %d, and is not in the log: it was not committed, or it is lost%s",
				short(id), t.scope, a.since(t.at), t.life, why)
		}
	}
	ids := slices.Sorted(maps.Keys(a.decisions))
	for i, id := range ids {
		e := a.decisions[id][0]
		if n := len(a.decisions[id]); n > 1 {
			a.breaks("decision %s of %.60q is %d times in the log, first at positions %d and %d",
				short(id), e.Scope, n, e.Cursor.Position, a.decisions[id][1].Cursor.Position)
		}
		if n := a.told[id]; n != 1 {
			a.breaks("decision %s of %.60q at position %d has left its lane, and %d rows say how, want one: delivered, or a dead letter",
				short(id), e.Scope, e.Cursor.Position, n)
		}
		if i%(1+len(ids)/1000) != 0 {
			continue // some are enough
		}
		if _, err := a.store.Log().Find(a.ctx, id, decision); err != nil {
			return fmt.Errorf("Find of decision %s, which the log holds: %w", short(id), err)
		}
	}
	return nil
}

// readersAgree checks that every reader saw the log as it is.
func (a *killAudit) readersAgree() error {
	b, err := a.store.Log().Bounds(a.ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	if b.Trimmed > 0 || b.TrimmedVerdicts > 0 {
		return fmt.Errorf("the log was trimmed up to %d and %d: Open must return a store that keeps everything", b.Trimmed, b.TrimmedVerdicts)
	}
	if len(a.rows) > 0 && b.Newest < a.rows[len(a.rows)-1].Cursor.Position {
		a.breaks("the log's newest row is at position %d, and Bounds says %d", a.rows[len(a.rows)-1].Cursor.Position, b.Newest)
	}
	for _, f := range a.readers {
		var want []killRow
		for _, e := range a.rows {
			if f.query.Wants(e.Type) && f.query.Prefix.Covers(e.Scope) {
				want = append(want, rowOf(f.index, e))
			}
		}
		if len(f.segments) == 0 {
			if len(want) > 0 {
				a.breaks("a reader of the log saw nothing of its %d rows", len(want))
			}
			continue
		}
		for _, s := range f.segments[:len(f.segments)-1] {
			a.mayBeGone(s, want)
		}
		a.same(b.Epoch, f.segments[len(f.segments)-1], want)
	}
	return nil
}

// same checks that a reader saw the log in one order, and without a gap.
func (a *killAudit) same(epoch string, got killSegment, want []killRow) {
	for len(want) > 0 && want[0].Cursor.Position <= got.from {
		want = want[1:]
	}
	if got.epoch != epoch {
		a.breaks("a reader of the log is in epoch %.8q, and the log in %.8q", got.epoch, epoch)
		return
	}
	for i := range max(len(got.rows), len(want)) {
		switch {
		case i >= len(got.rows):
			a.breaks("a reader of the log did not see its last %d rows, from %s on", len(want)-i, want[i])
		case i >= len(want):
			a.breaks("a reader of the log saw at %s what is not in it any more, in the same epoch: its last %d rows, from %s on",
				a.since(got.rows[i].at), len(got.rows)-i, got.rows[i].killRow)
		case !got.rows[i].same(want[i]):
			a.breaks("a reader of the log saw other rows, in the same epoch: as number %d it saw, at %s,\n    %s (%x)\n  and the log has\n    %s (%x)",
				i+1, a.since(got.rows[i].at), got.rows[i].killRow, got.rows[i].Sum, want[i], want[i].Sum)
		default:
			continue
		}
		return
	}
}

// mayBeGone checks that what a reader saw in an earlier life of the log is there,
// or may be lost.
func (a *killAudit) mayBeGone(s killSegment, want []killRow) {
	type row struct {
		typ   attend.RowType
		id    attend.DecisionID
		scope attend.Scope
		sum   uint64
	}
	key := func(r killRow) row { return row{r.Type, r.ID, r.Scope, r.Sum} }
	there := make(map[row]bool)
	for _, r := range want {
		there[key(r)] = true
	}
	for _, r := range s.rows {
		if there[key(r.killRow)] {
			continue
		}
		if why := a.mayLose(r.At, r.at); why != "" {
			a.breaks("a reader of the log saw at %s what is not in it any more: %s%s", a.since(r.at), r.killRow, why)
		}
	}
}
