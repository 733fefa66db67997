package inspect

import (
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// A What says which step of a life a [Step] is.
type What string

const (
	WhatOpened    What = "opened"    // the window that it is in got its first event; it came then or later
	WhatSettled   What = "settled"   // the window settled
	WhatJudged    What = "judged"    // a judge answered
	WhatChanged   What = "changed"   // the act threshold changed the route
	WhatDecided   What = "decided"   // the decision was committed
	WhatDelivered What = "delivered" // the sink took the decision
	WhatSkipped   What = "skipped"   // the window was let go
	WhatWaited    What = "waited"    // the window was held
	WhatDropped   What = "dropped"   // the event left its window, undecided
	WhatRefused   What = "refused"   // the event could not be taken in
	WhatGaveUp    What = "gaveup"    // judge or sink were asked often enough: a dead letter
	WhatTaken     What = "taken"     // the handler took the dead letter
	WhatLost      What = "lost"      // what came next is not known any more
	// The last step can also be where the event is now: "open", "held",
	// "judging", "delivering" or "letter", like the [Fate]; or "logged".
	WhatLogged What = "logged" // the decision or letter is in the log, which is all the delivery there is
)

// A Step is one line of a story. Which fields are set depends on What.
type Step struct {
	At     time.Time // zero: not known, or now
	What   What
	Window attend.DecisionID // of the window, decision or letter; of WhatLost the decision of which is not known whether it was delivered
	Reason attend.Reason     // why the window settled
	Events int               // in the window; 0: not told
	// Place is the event's in the window, or its decision's or letter's in their
	// lane, from 1. Of WhatOpened it is 1 where the event opened the window, else 0.
	Place   int
	Dropped int          // events that the window had lost
	Gap     bool         // a source had lost events
	Waits   int          // how often the window was held before
	From    attend.Route // the judge's own route
	Why     attend.Why   // why it was dropped
	Stage   attend.Stage // of a dead letter
	// Attempts that it took, the last one included; of WhatGaveUp and FateJudging
	// those that failed.
	Attempts int
	Message  string    // of the last failure
	Until    time.Time // of a lease or a held window; when the scope does something next; zero: not known
	Asked    bool      // a judge is being asked now
	attend.Judgment
}

// A story is told step by step.
type story struct {
	event   string
	life    *Life
	begin   int // where in the steps the event came in last
	changed *attend.Mark
	decided attend.DecisionID // the last decision
}

// tell makes a story of traces.
func tell(event string, found *traces, s *machine.State, h *History) Life {
	l := Life{Source: found.source, Name: found.name, Kind: found.kind, Fate: FateUnknown}
	t := story{event: event, life: &l}
	for i := range found.rows {
		t.row(&found.rows[i])
	}
	late := s.Scope() != "" && found.newest.After(s.Now()) // then the state has the event where it was
	if late || len(found.state) == 0 {
		t.close(late, s, h)
		return l
	}
	for i := range found.state {
		t.place(&found.state[i])
	}
	return l
}

func (t *story) add(s Step) { t.life.Steps = append(t.life.Steps, s) }

// end adds a step with which a window ends. What comes then is another stay.
func (t *story) end(s Step, fate Fate) {
	t.add(s)
	t.life.Fate = fate
	t.begin = len(t.life.Steps)
	t.changed = nil
}

// opened tells when the window opened, before all else of this stay.
func (t *story) opened(w *attend.Window) {
	steps := t.life.Steps
	if w.Opened.IsZero() || len(steps) > t.begin && steps[t.begin].What == WhatOpened {
		return
	}
	s := Step{At: w.Opened, What: WhatOpened}
	if placeOf(w, t.life.Source, t.event) == 1 && w.Dropped == 0 {
		s.Place = 1
	}
	t.life.Steps = slices.Insert(steps, t.begin, s)
}

func (t *story) row(r *found) {
	switch {
	case r.decision != nil:
		t.decision(r.decision)
	case r.letter != nil:
		t.letter(r.letter, r.time)
		t.end(Step{At: r.time, What: WhatLogged, Window: r.letter.ID, Stage: r.letter.Stage}, FateTaken)
	case r.mark != nil:
		t.mark(r.mark)
	}
}

func (t *story) settled(w *attend.Window) {
	id := attend.NewDecisionID(w.Scope, w.Events)
	t.opened(w)
	t.add(Step{
		At: w.Settled, What: WhatSettled, Window: id, Reason: w.Reason, Events: len(w.Events),
		Place: placeOf(w, t.life.Source, t.event), Dropped: w.Dropped, Gap: w.Gap, Waits: w.Waits,
	})
}

func (t *story) decision(d *attend.Decision) {
	t.settled(&d.Window)
	t.judged(Step{At: d.At, Window: d.ID, Judgment: d.Judgment})
	t.decided = d.ID
	t.end(Step{At: d.At, What: WhatDecided, Window: d.ID, Judgment: attend.Judgment{Route: d.Route}}, FateDecided)
}

// judged tells of a judgment, and of what the act threshold made of it.
func (t *story) judged(s Step) {
	s.What = WhatJudged
	final := s.Route
	if c := t.changed; c != nil && c.ID == s.Window {
		s.Route = c.From
		t.add(s)
		s = Step{At: s.At, What: WhatChanged, Window: s.Window, From: c.From, Judgment: attend.Judgment{Route: final}}
	}
	t.changed = nil
	t.add(s)
}

// letter tells of a dead letter up to the moment when it was made; zero: not
// known.
func (t *story) letter(l *attend.DeadLetter, at time.Time) {
	if l.Decision != nil && t.decided != l.ID {
		t.decision(l.Decision)
	}
	s := Step{At: at, What: WhatGaveUp, Window: l.ID, Stage: l.Stage, Attempts: l.Attempts, Message: l.Message}
	switch l.Stage {
	case attend.StageIntake:
		s.What, s.At = WhatRefused, l.Window.Opened
	case attend.StageJudge:
		t.settled(&l.Window)
	}
	t.add(s)
}

func (t *story) mark(m *attend.Mark) {
	s := Step{At: m.At, Window: m.ID, Reason: m.Reason, Events: len(m.Events), Judgment: m.Judgment}
	switch m.Step {
	case attend.StepChanged:
		t.changed = m // its verdict is the next row of the window
	case attend.StepSkipped:
		t.judged(s)
		t.end(Step{At: m.At, What: WhatSkipped, Window: m.ID}, FateSkipped)
	case attend.StepWaited:
		t.judged(s)
		t.add(Step{At: m.At, What: WhatWaited, Window: m.ID})
		t.life.Fate = FateHeld
	case attend.StepDropped:
		t.end(Step{At: m.At, What: WhatDropped, Why: m.Why}, FateDropped)
	case attend.StepDelivered:
		t.end(Step{At: m.At, What: WhatDelivered, Window: m.ID, Attempts: m.Attempts, Judgment: attend.Judgment{Route: m.Route}}, FateDelivered)
	case attend.StepTaken:
		t.end(Step{At: m.At, What: WhatTaken, Window: m.ID, Stage: m.Stage, Reason: m.Reason, Attempts: m.Attempts}, FateTaken)
	}
}

// place tells where the state has the event.
func (t *story) place(r *found) {
	switch {
	case r.decision != nil && t.decided != r.decision.ID:
		t.decision(r.decision)
	case r.letter != nil:
		t.letter(r.letter, time.Time{}) // the state does not say when
	case r.window != nil && r.window.Settled.IsZero():
		t.opened(r.window)
	case r.window != nil:
		t.settled(r.window)
	}
	t.life.Fate = Fate(r.place.What)
	t.add(r.place)
}

// close tells why the story ends, where the state knows nothing of the event.
// Late: the state is older than the last row.
func (t *story) close(late bool, s *machine.State, h *History) {
	if t.changed != nil { // its verdict's row is gone
		m := t.changed
		t.judged(Step{At: m.At, Window: m.ID, Reason: m.Reason, Judgment: m.Judgment})
	}
	switch t.life.Fate {
	case FateHeld, FateUnknown:
		if late && t.life.Fate == FateHeld {
			return
		}
		t.life.Fate, t.decided = FateUnknown, ""
	case FateDecided:
		switch p := s.Policy(); {
		case p != nil && p.LogDecisions:
			t.life.Fate = FateLogged
			t.add(Step{What: WhatLogged, Window: t.decided})
			return
		case late:
			t.life.Fate = FateDelivering
			t.add(Step{What: What(FateDelivering), Window: t.decided})
			return
		}
	default:
		return
	}
	t.add(Step{What: WhatLost, Window: t.decided, Message: reason(s, h)})
}

// reason says why a story can have no end.
func reason(s *machine.State, h *History) string {
	switch p := s.Policy(); {
	case h.Limited:
		return "too many rows: not all were looked at"
	case h.Trimmed:
		return "retention took rows of the log"
	case p != nil && !p.RecordVerdicts:
		return "verdicts are not recorded"
	case p == nil:
		return "the scope has been removed, or has forgotten itself"
	default:
		return "no row tells"
	}
}
