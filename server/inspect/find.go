package inspect

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A finder finds what there is of one event id.
type finder struct {
	event      string
	quoted     []byte             // the id, as rows have it
	lives      map[string]*traces // by source
	order      []*traces          // in which they came up
	unnamed    []attend.Entry     // verdict rows that do not name the event, and may name its window
	unreadable int
}

// traces are what was found of one event.
type traces struct {
	source string
	name   string
	kind   attend.Kind
	ids    map[attend.DecisionID]bool // of windows that it was in
	rows   []found                    // oldest first
	state  []found                    // where the state has it, in the order in which it goes from one to the next
	newest time.Time                  // of rows
}

// found is one thing that was found: a row or a place of the state.
type found struct {
	at       attend.Position // of a row
	time     time.Time       // of a row
	decision *attend.Decision
	letter   *attend.DeadLetter
	mark     *attend.Mark
	window   *attend.Window // open, held or in the slot; nil for the others
	place    Step           // of the state: where it is
}

func (f *finder) life(source string) *traces {
	l := f.lives[source]
	if l == nil {
		l = &traces{source: source, ids: make(map[attend.DecisionID]bool)}
		f.lives[source] = l
		f.order = append(f.order, l)
	}
	return l
}

// in calls yes for the lives of the events of a window that have the id; two
// sources may have brought one each.
func (f *finder) in(w *attend.Window, yes func(l *traces)) {
	for i := range w.Events {
		if e := &w.Events[i]; e.ID == f.event {
			l := f.life(e.Source)
			l.name, l.kind = e.Name, e.Kind
			yes(l)
		}
	}
}

// rows finds the rows that name the event. The others are not decoded, but those
// that name a window that it was in.
func (f *finder) rows(rows []attend.Entry) {
	for _, e := range rows {
		if !bytes.Contains(e.Body, f.quoted) {
			if e.Type == attend.RowVerdict && e.ID != "" {
				f.unnamed = append(f.unnamed, e)
			}
			continue
		}
		r, err := decode(e)
		if err != nil {
			f.unreadable++
			continue
		}
		add := func(l *traces) {
			if e.ID != "" {
				l.ids[e.ID] = true
			}
			l.insert(r)
		}
		switch {
		case r.decision != nil:
			f.in(&r.decision.Window, add)
		case r.letter != nil:
			f.in(&r.letter.Window, add)
		case r.mark != nil:
			for _, ref := range r.mark.Events {
				if ref.ID == f.event {
					add(f.life(ref.Source))
				}
			}
		}
	}
}

// rest gives the rows that name no events to the lives that their windows have.
func (f *finder) rest() {
	for _, e := range f.unnamed {
		if !slices.ContainsFunc(f.order, func(l *traces) bool { return l.ids[e.ID] }) {
			continue
		}
		r, err := decode(e)
		if err != nil {
			f.unreadable++
			continue
		}
		for _, l := range f.order {
			if l.ids[e.ID] && len(r.mark.Events) == 0 {
				l.insert(r)
			}
		}
	}
}

func decode(e attend.Entry) (found, error) {
	r := found{at: e.Cursor.Position, time: e.At}
	switch e.Type {
	case attend.RowDecision:
		r.decision = new(attend.Decision)
		return r, json.Unmarshal(e.Body, r.decision)
	case attend.RowLetter:
		r.letter = new(attend.DeadLetter)
		return r, json.Unmarshal(e.Body, r.letter)
	case attend.RowVerdict:
		r.mark = new(attend.Mark)
		return r, json.Unmarshal(e.Body, r.mark)
	default:
		return r, nil // of a newer release: nothing that this one could tell
	}
}

// insert adds a row in its place, once: a mark may name an event twice.
func (l *traces) insert(r found) {
	i := len(l.rows)
	for i > 0 && l.rows[i-1].at > r.at {
		i--
	}
	if i > 0 && l.rows[i-1].at == r.at {
		return
	}
	l.rows = slices.Insert(l.rows, i, r)
	if r.time.After(l.newest) {
		l.newest = r.time
	}
}

// state finds where a scope's state has the event.
func (f *finder) state(s *machine.State) {
	for i, d := range s.Decisions() {
		f.in(&d.Window, func(l *traces) {
			l.ids[d.ID] = true
			l.state = append(l.state, found{decision: &d, place: Step{What: What(FateDelivering), Window: d.ID, Judgment: attend.Judgment{Route: d.Route}, Place: i + 1}})
		})
	}
	for i, d := range s.Letters() {
		f.in(&d.Window, func(l *traces) {
			l.ids[d.ID] = true
			l.state = append(l.state, found{letter: &d, place: Step{What: What(FateLetter), Window: d.ID, Stage: d.Stage, Place: i + 1}})
		})
	}
	slot, judging := s.Slot()
	f.in(&slot.Window, func(l *traces) {
		place := Step{What: What(FateJudging), Attempts: slot.Attempts, Message: slot.Message, Until: slot.Ready}
		if !slot.Leased.IsZero() {
			place.Asked, place.Until = true, slot.Leased
		}
		l.state = append(l.state, found{window: &slot.Window, place: place})
	})
	held, until, waits := s.Held()
	f.in(&held, func(l *traces) {
		l.state = append(l.state, found{window: &held, place: Step{What: What(FateHeld), Until: until, Events: len(held.Events), Waits: held.Waits}})
	})
	open := s.Window()
	f.in(&open, func(l *traces) {
		place := Step{What: What(FateOpen), Events: len(open.Events), Place: placeOf(&open, l.source, f.event), Asked: judging}
		if waits || !judging && slices.ContainsFunc(open.Events, func(e attend.Event) bool { return e.Kind.Act() }) {
			place.Until = s.Next()
		}
		l.state = append(l.state, found{window: &open, place: place})
	})
}

// placeOf is the place of an event in a window, from 1.
func placeOf(w *attend.Window, source, id string) int {
	return 1 + slices.IndexFunc(w.Events, func(e attend.Event) bool { return e.ID == id && e.Source == source })
}
