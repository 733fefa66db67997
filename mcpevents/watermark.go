package mcpevents

import "time"

// maxWindow is how many events of a subscription are read ahead of the oldest
// unsettled one.
const maxWindow = 32

// maxWindowBytes is how many bytes their cursors have, which stand in the record.
const maxWindowBytes = 16 << 10

// A parcel is one event on its way, or a place that only moves the watermark:
// one that is settled from the start.
type parcel struct {
	cursor Cursor  // behind the event
	event  *formed // nil: a place
	done   bool
	flying bool
	tries
}

// A window is the stretch of a subscription's events between its watermark and
// how far it was read. Events settle in any order; the watermark follows only
// where everything before is settled.
type window struct {
	position Cursor // the watermark
	read     Cursor // where reading goes on
	list     []*parcel

	settled map[Cursor]bool  // events of an earlier process that are settled
	tried   map[Cursor]tries // and that were tried
}

// newWindow goes on where a record stands.
func newWindow(r *webhookRecord) *window {
	w := &window{position: r.Position, read: r.Position, settled: make(map[Cursor]bool), tried: make(map[Cursor]tries)}
	for _, c := range r.Settled {
		w.settled[c] = true
	}
	for _, t := range r.Tries {
		w.tried[t.Cursor] = t.tries
	}
	return w
}

// room is how many more events may be read.
func (w *window) room() int {
	n := max(min(maxWindow, maxWindowBytes/max(len(w.read), 1)), 1)
	for _, d := range w.list {
		if d.event != nil {
			n--
		}
	}
	return max(n, 0)
}

// add takes an event that was read.
func (w *window) add(c Cursor, f *formed) *parcel {
	d := &parcel{cursor: c, event: f, done: w.settled[c], tries: w.tried[c]}
	delete(w.settled, c)
	delete(w.tried, c)
	w.list = append(w.list, d)
	w.read = c
	return d
}

// mark takes the end of a page: what was looked at up to there is settled once
// the events before it are.
func (w *window) mark(c Cursor) *parcel {
	w.read = c
	if n := len(w.list); n > 0 && w.list[n-1].event == nil {
		w.list[n-1].cursor = c
		return w.list[n-1]
	}
	d := &parcel{cursor: c, done: true}
	w.list = append(w.list, d)
	return d
}

// forget drops what was kept of events that were not read again: behind a place where
// events were lost, or at the end, it does not mean anything any more.
func (w *window) forget() {
	clear(w.settled)
	clear(w.tried)
}

// advance moves the watermark over what is settled and calls passed with each
// parcel on the way.
func (w *window) advance(passed func(*parcel)) {
	for len(w.list) > 0 && w.list[0].done {
		w.position = w.list[0].cursor
		passed(w.list[0])
		w.list[0] = nil
		w.list = w.list[1:]
	}
}

// safe is the cursor that an event's body carries: behind the event where
// everything before it is settled, else the watermark.
func (w *window) safe(d *parcel) Cursor {
	if len(w.list) > 0 && w.list[0] == d {
		return d.cursor
	}
	return w.position
}

// state is what a record keeps of the events behind the watermark, those too
// that were not read again yet.
func (w *window) state() (settled []Cursor, tried []storedTry) {
	for _, d := range w.list {
		switch {
		case d.event == nil:
		case d.done:
			settled = append(settled, d.cursor)
		case d.First != 0:
			tried = append(tried, storedTry{d.cursor, d.tries})
		}
	}
	for c := range w.settled {
		settled = append(settled, c)
	}
	for c, t := range w.tried {
		tried = append(tried, storedTry{c, t})
	}
	return settled, tried
}

// next is when the earliest waiting event may be tried; zero: none waits.
func (w *window) next(now time.Time, due func(ms int64, now time.Time) time.Time) (at time.Time) {
	for _, d := range w.list {
		if d.done || d.flying {
			continue
		}
		t := due(d.Next, now)
		if d.Next == 0 {
			t = now
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}
