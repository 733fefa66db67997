package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/google/go-cmp/cmp"
)

// An ending is what a story comes to, a line each, without what a crash may
// change: when things happened, how many attempts they took, what was repeated.
type ending struct {
	Log       []string // decisions, by scope, in order
	Marks     []string // what explains the rest, sorted
	Delivered []string // decisions as the sink first took them, by scope, in order
	Letters   []string // dead letters, sorted
	Left      []string // what the scopes hold
	Fates     []string // what became of each event, sorted
}

// What was heard of a story.
type heard struct {
	ending
	short    []string            // decisions and dead letters as its want lines name them
	open     []string            // events that no window has settled with, as its left lines do
	fates    map[string][]string // of each event
	calls    int                 // of the judge
	attempts int                 // of the sink and the handler
	tries    map[string]int      // failed ones, by line of Letters
}

// hear gathers it from the store and from the world, and checks what needs no
// other run: rows are what they are filed under, events are as they were sent.
func (r *crashRun) hear(ctx context.Context) (heard, error) {
	h := heard{fates: make(map[string][]string), tries: make(map[string]int)}
	if err := r.hearLog(ctx, &h); err != nil {
		return h, err
	}
	if err := r.hearWorld(&h); err != nil {
		return h, err
	}
	for _, scope := range r.story.scopes() {
		if err := r.hearState(ctx, &h, scope); err != nil {
			return h, err
		}
	}
	for _, st := range r.story.steps {
		if st.do == "remove" {
			for _, id := range st.words {
				h.fate(st.scope, attend.EventRef{ID: id}, "removed")
			}
		}
	}
	for _, who := range slices.Sorted(maps.Keys(h.fates)) {
		slices.Sort(h.fates[who])
		h.Fates = append(h.Fates, who+": "+strings.Join(h.fates[who], ", "))
	}
	for _, list := range [][]string{h.Marks, h.Letters} {
		slices.Sort(list)
	}
	return h, nil
}

func (h *heard) fate(scope attend.Scope, e attend.EventRef, what string) {
	k := identity(scope, e)
	h.fates[k] = append(h.fates[k], what)
}

// identity names an event.
func identity(scope attend.Scope, e attend.EventRef) string {
	if e.Source != "" {
		return fmt.Sprintf("%s %s/%s", scope, e.Source, e.ID)
	}
	return fmt.Sprintf("%s %s", scope, e.ID)
}

func (r *crashRun) hearLog(ctx context.Context, h *heard) error {
	rows, err := read(ctx, r.look, attend.Query{After: r.began, Types: everything})
	if err != nil {
		return err
	}
	lines := make(map[attend.Scope][]string)
	for _, e := range rows {
		switch e.Type {
		case decision:
			var d attend.Decision
			if err := json.Unmarshal(e.Body, &d); err != nil {
				return fmt.Errorf("the body of a decision row: %w", err)
			}
			if err := r.checkDecision(&d, e.Row); err != nil {
				return err
			}
			lines[e.Scope] = append(lines[e.Scope], decisionLine(&d))
			h.short = append(h.short, shortLine(string(d.Route), &d.Window))
			h.settled(&d.Window, "decided")
			if _, err := r.look.Log().Find(ctx, d.ID, decision); err != nil {
				return fmt.Errorf("Find of a decision that the log holds: %w", err)
			}
		case letter:
			var l attend.DeadLetter
			if err := json.Unmarshal(e.Body, &l); err != nil {
				return fmt.Errorf("the body of a dead letter's row: %w", err)
			}
			if l.ID != e.ID || l.Window.Scope != e.Scope {
				return fmt.Errorf("dead letter %s of %q is filed under %s of %q", l.ID, l.Window.Scope, e.ID, e.Scope)
			}
			if err := r.letter(h, &l); err != nil {
				return err
			}
		case verdict:
			var m attend.Mark
			if err := json.Unmarshal(e.Body, &m); err != nil {
				return fmt.Errorf("the body of a mark: %w", err)
			}
			h.mark(e.Scope, &m)
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(lines)) {
		h.Log = append(h.Log, lines[scope]...)
	}
	return nil
}

// settled notes the fate of a window's events.
func (h *heard) settled(w *attend.Window, what string) {
	for _, e := range w.Events {
		h.fate(w.Scope, attend.EventRef{Source: e.Source, ID: e.ID}, what)
	}
}

// mark notes a mark; when and after how many attempts is left out.
func (h *heard) mark(scope attend.Scope, m *attend.Mark) {
	if m.Step == attend.StepDropped {
		for _, e := range m.Events {
			h.Marks = append(h.Marks, fmt.Sprintf("%s: dropped (%s) %s", scope, m.Why, e.ID))
			h.fate(scope, e, "dropped")
		}
		return
	}
	line := fmt.Sprintf("%s: %s %s", scope, m.Step, short(m.ID))
	for _, s := range []string{string(m.Stage), string(m.Reason), string(m.From), judgmentLine(m.Judgment)} {
		if s != "" {
			line += " " + s
		}
	}
	for _, e := range m.Events {
		line += " " + e.ID
		if m.Step == attend.StepSkipped {
			h.fate(scope, e, "skipped")
		}
	}
	h.Marks = append(h.Marks, line)
}

// hearWorld reads what the sink and the handler were handed.
func (r *crashRun) hearWorld(h *heard) error {
	lines := make(map[attend.Scope][]string)
	seen := make(map[string]bool)
	for _, d := range r.world.sink.Delivered() {
		if err := r.checkDecision(&d, attend.Row{Scope: d.Scope(), ID: d.ID}); err != nil {
			return err
		}
		// The same events in a scope's next life are another decision.
		if key := fmt.Sprint(d.ID, d.At.UnixMilli()); !seen[key] {
			seen[key] = true
			lines[d.Scope()] = append(lines[d.Scope()], decisionLine(&d))
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(lines)) {
		h.Delivered = append(h.Delivered, lines[scope]...)
	}
	for _, l := range r.world.letters.Taken() {
		if key := fmt.Sprint("letter", l.ID, l.Stage, l.Window.Settled.UnixMilli()); !seen[key] {
			seen[key] = true
			if err := r.letter(h, &l); err != nil {
				return err
			}
		}
	}
	h.calls = r.world.calls
	h.attempts = len(r.world.sink.Attempts()) + len(r.world.letters.Attempts())
	return nil
}

func (r *crashRun) letter(h *heard, l *attend.DeadLetter) error {
	line := fmt.Sprintf("%s: dead letter %s %s %s", l.Window.Scope, short(l.ID), l.Stage, windowLine(&l.Window))
	want := attend.NewDecisionID(l.Window.Scope, l.Window.Events)
	switch l.Stage {
	case attend.StageIntake:
		want = attend.NewIntakeID(l.Window.Scope, l.Window.Events[0])
		h.settled(&l.Window, "refused")
	case attend.StageJudge:
		h.settled(&l.Window, "given up")
	case attend.StageSink: // its decision is in the log
		if l.Decision == nil {
			return fmt.Errorf("the dead letter of %s has no decision, though its sink gave up", idsOf(l.Window.Events))
		}
		line += " " + judgmentLine(l.Decision.Judgment)
	}
	if l.ID != want {
		return fmt.Errorf("the dead letter of %s has the id %s, want %s", idsOf(l.Window.Events), l.ID, want)
	}
	if err := r.checkEvents(&l.Window); err != nil {
		return err
	}
	h.Letters = append(h.Letters, line)
	h.short = append(h.short, shortLine(string(l.Stage), &l.Window))
	h.tries[line] = l.Attempts
	return nil
}

func (r *crashRun) hearState(ctx context.Context, h *heard, scope attend.Scope) error {
	s, err := r.state(ctx, scope)
	if err != nil {
		return err
	}
	if s.Scope() == "" {
		h.Left = append(h.Left, string(scope)+": nothing")
		return nil
	}
	open := s.Window()
	held, _, ok := s.Held()
	if ok {
		h.Left = append(h.Left, fmt.Sprintf("%s: holds %s", scope, windowLine(&held)))
	}
	h.Left = append(h.Left, fmt.Sprintf("%s: open %s", scope, windowLine(&open)))
	for _, v := range s.Recent() {
		h.Left = append(h.Left, fmt.Sprintf("%s: remembers %s %s of %d events, %s", scope, short(v.ID), v.Reason, v.Events, judgmentLine(v.Judgment)))
	}
	for _, key := range r.story.sources(scope) {
		h.Left = append(h.Left, fmt.Sprintf("%s: source %s is at %q", scope, key, s.Cursor(key)))
	}
	for _, w := range []*attend.Window{&held, &open} {
		if len(w.Events) > 0 {
			h.settled(w, "left")
			h.open = append(h.open, string(scope)+" "+idsOf(w.Events))
			if err := r.checkEvents(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDecision checks that a decision is what it is filed under, and has the
// id of its events.
func (r *crashRun) checkDecision(d *attend.Decision, row attend.Row) error {
	if d.ID != row.ID || d.Window.Scope != row.Scope {
		return fmt.Errorf("decision %s of %q is filed under %s of %q", d.ID, d.Window.Scope, row.ID, row.Scope)
	}
	if id := attend.NewDecisionID(d.Window.Scope, d.Window.Events); d.ID != id {
		return fmt.Errorf("the decision on %s has the id %s, want %s", idsOf(d.Window.Events), d.ID, id)
	}
	return r.checkEvents(&d.Window)
}

// checkEvents checks that events are as their producers sent them.
func (r *crashRun) checkEvents(w *attend.Window) error {
	for _, e := range w.Events {
		sent := r.story.sent(w.Scope, e.Source, e.ID)
		if !slices.ContainsFunc(sent, func(s attend.Event) bool { return cmp.Equal(s, e) }) {
			return fmt.Errorf("event %s is not as it was sent (-sent +got):\n%s", identity(w.Scope, attend.EventRef{Source: e.Source, ID: e.ID}), cmp.Diff(sent, []attend.Event{e}))
		}
	}
	return nil
}

// sent returns an event as its steps sent it, and as it is taken in.
func (s *story) sent(scope attend.Scope, source, id string) (all []attend.Event) {
	for _, st := range s.everyStep() {
		for _, e := range st.events {
			if st.scope == scope && st.source == source && e.ID == id {
				e.Source, e.Kind = source, storyKind(e)
				if !e.Kind.Valid() {
					e.Kind = ""
				}
				all = append(all, e)
			}
		}
	}
	return all
}

func (s *story) everyStep() (all []step) {
	for _, st := range s.steps {
		all = append(append(all, st), st.meanwhile...)
	}
	return all
}

func (s *story) sources(scope attend.Scope) (all []string) {
	for _, st := range s.everyStep() {
		if st.scope == scope && st.source != "" && !slices.Contains(all, st.source) {
			all = append(all, st.source)
		}
	}
	return all
}

// The lines.

func decisionLine(d *attend.Decision) string {
	return fmt.Sprintf("%s: %s %s %s", d.Window.Scope, short(d.ID), judgmentLine(d.Judgment), windowLine(&d.Window))
}

func shortLine(what string, w *attend.Window) string {
	return fmt.Sprintf("%s %s %s", w.Scope, what, idsOf(w.Events))
}

func windowLine(w *attend.Window) string {
	line := idsOf(w.Events)
	if line == "" {
		line = "nothing"
	}
	if w.Reason != "" {
		line += fmt.Sprintf(" (%s)", w.Reason)
	}
	if w.Waits > 0 {
		line += fmt.Sprintf(", waited %d", w.Waits)
	}
	if w.Dropped > 0 {
		line += fmt.Sprintf(", dropped %d", w.Dropped)
	}
	if w.Gap {
		line += ", gap"
	}
	return line
}

func judgmentLine(j attend.Judgment) string {
	line := string(j.Route)
	for _, r := range slices.Sorted(maps.Keys(j.Probabilities)) {
		line += fmt.Sprintf(" %s=%g", r, j.Probabilities[r])
	}
	for _, q := range slices.Sorted(maps.Keys(j.Predicates)) {
		line += fmt.Sprintf(" %s=%g", q, j.Predicates[q])
	}
	if j.Confidence != 0 {
		line += fmt.Sprintf(" confidence=%g", j.Confidence)
	}
	return line
}

func idsOf(events []attend.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.ID)
	}
	return strings.Join(out, " ")
}

// short is enough of an id to read; all of it was checked against the events.
func short(id attend.DecisionID) string { return string(id[:min(len(id), 8)]) }
