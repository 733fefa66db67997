package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A killAudit goes through the log and the states, once everything rests.
type killAudit struct {
	*killRun
	rows      []attend.Entry
	fates     map[killEvent][]string
	decisions map[attend.DecisionID][]attend.Entry
	told      map[attend.DecisionID]int // marks and letters that say what became of a decision
	broken    []string
	more      int
}

// audit returns what there was, or every promise that broke.
func (r *killRun) audit() (string, error) {
	for _, w := range r.workers {
		if l := w.life.Load(); l != nil {
			l.kill()
			<-l.gone
		}
	}
	// What a new handle finds is what there is.
	if err := r.close(); err != nil {
		return "", err
	}
	if err := r.open(); err != nil {
		return "", fmt.Errorf("after %s: %w", r.before(), err)
	}
	a := &killAudit{
		killRun: r, fates: make(map[killEvent][]string), decisions: make(map[attend.DecisionID][]attend.Entry),
		told: make(map[attend.DecisionID]int),
	}
	var err error
	if a.rows, err = read(r.ctx, r.store, attend.Query{Types: everything}); err != nil {
		return "", err
	}
	for _, check := range []func() error{a.log, a.states, a.events, a.deliveries, a.readersAgree} {
		if err := check(); err != nil {
			return "", err
		}
	}
	if len(a.broken) > 0 {
		if a.more > 0 {
			a.broken = append(a.broken, fmt.Sprintf("and %d more like these", a.more))
		}
		return "", violation("%s", strings.Join(a.broken, "\n"))
	}
	return a.sum(), nil
}

// breaks notes a promise that broke. The first few are enough to look at.
func (a *killAudit) breaks(format string, args ...any) {
	if len(a.broken) >= 5 {
		a.more++
		return
	}
	a.broken = append(a.broken, fmt.Sprintf(format, args...))
}

func (a *killAudit) sum() string {
	b := a.book
	tries, lost := 0, 0
	for _, p := range b.pushes {
		tries += p.tries
		if !p.acked.IsZero() && len(a.fates[killEvent{p.scope, p.events[0].ID}]) == 0 {
			lost++
		}
	}
	text := fmt.Sprintf("%d kills in %v; %d pushes of %d events to %d scopes, %d acknowledged, %d repeated; %d decisions among %d rows",
		len(a.deaths()), time.Since(a.begun).Round(100*time.Millisecond), len(b.pushes), len(b.events), len(b.scopes()),
		b.acked, tries-len(b.pushes), len(a.decisions), len(a.rows))
	if a.d.Loss > 0 {
		text += fmt.Sprintf("; %d acknowledged pushes lost", lost)
	}
	return text
}

// log checks the rows, and notes what they say of each event.
func (a *killAudit) log() error {
	f := &killReader{query: attend.Query{Types: everything}, tell: func(killRow) {}}
	for _, e := range a.rows {
		if err := f.add(rowOf(0, e)); err != nil {
			a.breaks("%v", err)
		}
		where := fmt.Sprintf("%s %s of %.60q at position %d", e.Type, short(e.ID), e.Scope, e.Cursor.Position)
		switch e.Type {
		case decision:
			var d attend.Decision
			if err := json.Unmarshal(e.Body, &d); err != nil {
				return fmt.Errorf("%s: its body: %w", where, err)
			}
			a.window(where, e.Row, d.ID, &d.Window, "decided in "+where)
			a.decisions[e.ID] = append(a.decisions[e.ID], e)
		case letter:
			var l attend.DeadLetter
			if err := json.Unmarshal(e.Body, &l); err != nil {
				return fmt.Errorf("%s: its body: %w", where, err)
			}
			if l.Stage == attend.StageSink {
				a.told[e.ID]++
				continue
			}
			a.window(where, e.Row, l.ID, &l.Window, "given up in "+where)
		case verdict:
			var m attend.Mark
			if err := json.Unmarshal(e.Body, &m); err != nil {
				return fmt.Errorf("%s: its body: %w", where, err)
			}
			a.mark(where, e.Scope, &m)
		}
	}
	return nil
}

func (a *killAudit) mark(where string, scope attend.Scope, m *attend.Mark) {
	what := ""
	switch m.Step {
	case attend.StepDelivered:
		a.told[m.ID]++
	case attend.StepSkipped:
		what = "skipped in "
	case attend.StepDropped:
		what = "dropped in "
	case attend.StepWaited, attend.StepChanged, attend.StepTaken:
	}
	if what == "" {
		return
	}
	for _, e := range m.Events {
		a.fate(killEvent{scope, e.ID}, what+where)
	}
}

// window checks a window that has come to its end, and notes the fate of its
// events.
func (a *killAudit) window(where string, row attend.Row, id attend.DecisionID, w *attend.Window, what string) {
	if id != row.ID || w.Scope != row.Scope {
		a.breaks("%s holds %s of %.60q", where, id, w.Scope)
	}
	if want := attend.NewDecisionID(w.Scope, w.Events); id != want {
		a.breaks("%s has another id than its %d events (%.60s) lead to, %s", where, len(w.Events), idsOf(w.Events), short(want))
	}
	a.content(where, w)
	for _, e := range w.Events {
		a.fate(killEvent{w.Scope, e.ID}, what)
	}
}

// content checks that a window has no event twice, and each as it was pushed.
func (a *killAudit) content(where string, w *attend.Window) {
	seen := make(map[string]bool)
	for _, e := range w.Events {
		if seen[e.ID] {
			a.breaks("a window has an event twice: %s in %s, of %.100s", e.ID, where, idsOf(w.Events))
		}
		seen[e.ID] = true
		p := a.book.events[killEvent{w.Scope, e.ID}]
		if p == nil {
			continue // fate says so
		}
		i := slices.IndexFunc(p.events, func(s attend.Event) bool { return s.ID == e.ID })
		if sent := p.events[i]; e.Name != sent.Name || e.Text != sent.Text {
			a.breaks("event %s in %s is not as it was pushed: %q with %d bytes of text, want %q with %d",
				e.ID, where, e.Name, len(e.Text), sent.Name, len(sent.Text))
		}
	}
}

func (a *killAudit) fate(e killEvent, what string) {
	if a.book.events[e] == nil {
		a.breaks("event %s of %.60q, %s, was never pushed", e.id, e.scope, what)
	}
	a.fates[e] = append(a.fates[e], what)
}

// states notes what is left in the scopes.
func (a *killAudit) states() error {
	for _, scope := range a.book.scopes() {
		s, err := a.state(scope)
		if err != nil {
			return err
		}
		if what := work(&s); what != "" {
			a.breaks("%.60q was at rest, and a new handle finds that %s", scope, what)
		}
		open := s.Window()
		a.content(fmt.Sprintf("the open window of %.60q", scope), &open)
		for _, e := range open.Events {
			a.fate(killEvent{scope, e.ID}, "still in the open window")
		}
	}
	return nil
}

// events checks that each event has one fate, and each push one for all.
func (a *killAudit) events() error {
	for _, p := range a.book.pushes {
		missing, told := 0, false
		for _, e := range p.events {
			k := killEvent{p.scope, e.ID}
			switch f := a.fates[k]; {
			case len(f) == 0:
				missing++
			case len(f) > 1 && !told:
				told = true // the others of its push have the same
				a.breaks("an event has %d fates: %s of %.60q, %s, is\n    %s", len(f), e.ID, p.scope, a.story(p), strings.Join(f, "\n    "))
			}
		}
		what := fmt.Sprintf("of %.60q, %s", p.scope, a.story(p))
		switch {
		case missing == 0:
		case missing < len(p.events):
			a.breaks("half a write landed: %d of the %d events of a push (%s … %s) %s, are nowhere: in no row, and not in their scope's state",
				missing, len(p.events), p.events[0].ID, p.events[len(p.events)-1].ID, what)
		case !p.acked.IsZero():
			if why := a.mayLose(p.sent, p.acked); why != "" {
				a.breaks("an acknowledged push is gone: its %d events (%s …) %s, are in no row, and not in their scope's state%s",
					len(p.events), p.events[0].ID, what, why)
			}
		}
	}
	return nil
}

// story is what is known of a push.
func (a *killAudit) story(p *killPush) string {
	if p.acked.IsZero() {
		return fmt.Sprintf("pushed %d times and never acknowledged", p.tries)
	}
	text := fmt.Sprintf("acknowledged at %s by child %d", a.since(p.acked), p.life)
	if p.tries > 1 {
		text += fmt.Sprintf(" at the %d. try", p.tries)
	}
	for _, d := range a.deaths() {
		if (d.life == p.life || d.life == 0) && d.gone.After(p.acked) {
			who := "which was"
			if d.life == 0 {
				who = "whose server was"
			}
			return text + fmt.Sprintf(", %s killed %v later", who, max(0, d.at.Sub(p.acked)).Round(100*time.Microsecond))
		}
	}
	return text
}

// mayLose says why what was committed between two moments may not be lost,
// empty: it may. What was there when a server was killed may have been answered
// just before, and heard of later.
func (a *killAudit) mayLose(from, to time.Time) string {
	if a.d.Loss == 0 {
		return "."
	}
	why := "; the server was not killed afterwards"
	for _, d := range a.deaths() {
		switch age := d.at.Sub(to); {
		case d.gone.Before(from):
		case age > a.d.Loss:
			return fmt.Sprintf("; the server was killed %v later, and may lose %v", age.Round(time.Millisecond), a.d.Loss)
		case d.noticed:
			return ""
		default:
			why = "; nobody can notice that the server lost it, for the log's epoch stayed the same"
		}
	}
	return why
}
