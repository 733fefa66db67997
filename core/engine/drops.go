package engine

import (
	"slices"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A drop is a row of a draft that tells of dropped events.
type drop struct {
	row   int // its place in rows
	marks []attend.Mark
}

// mergeDrops makes one row of those that tell of drops with one cause (E41), in
// the place of the last: of a flood, each input that is gathered into the write
// drops something.
func (d *draft) mergeDrops(scope attend.Scope) {
	if len(d.drops) < 2 {
		return
	}
	var merged []drop
	gone := make(map[int]bool)
	for _, x := range d.drops {
		same := func(o drop) bool { return o.marks[0].Why == x.marks[0].Why }
		if i := slices.IndexFunc(merged, same); i >= 0 {
			gone[merged[i].row] = true
			merged[i] = drop{x.row, append(merged[i].marks, x.marks...)}
		} else {
			merged = append(merged, x)
		}
	}
	if len(gone) == 0 {
		return
	}
	for _, x := range merged {
		if len(x.marks) > 1 {
			d.rows[x.row] = machine.Merge(scope, x.marks)
		}
	}
	place := make([]int, len(d.rows)) // where each row goes
	rows := d.rows[:0:0]
	for i, r := range d.rows {
		place[i] = len(rows)
		if !gone[i] {
			rows = append(rows, r)
		}
	}
	for i := range merged {
		merged[i].row = place[merged[i].row]
	}
	d.rows, d.drops = rows, merged
}
