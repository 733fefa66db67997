package machine

import (
	"fmt"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// show tells what is in the state: all that there is, or the parts named.
func (r *traceRun) show(parts []string) ([]string, error) {
	s := &r.state
	if s.scope == "" {
		return []string{"no such scope"}, nil
	}
	var out []string
	all := map[string]func() []string{
		"open":      r.showOpen,
		"held":      r.showHeld,
		"slot":      r.showSlot,
		"decisions": func() []string { return r.showLane("decision", s.decisions) },
		"letters":   func() []string { return r.showLane("letter", s.letters) },
		"seen":      r.showSeen,
		"recent":    r.showRecent,
		"cursors":   r.showCursors,
		"writers":   r.showWriters,
		"due":       r.showDue,
	}
	if len(parts) == 0 {
		parts = []string{"open", "held", "slot", "decisions", "letters"}
	}
	for _, part := range parts {
		if all[part] == nil {
			return nil, fmt.Errorf("show %s: no such part", part)
		}
		out = append(out, all[part]()...)
	}
	if out == nil {
		out = []string{"nothing"}
	}
	return out, nil
}

func (r *traceRun) showOpen() []string {
	w, p := r.state.Window(), &r.state.open
	if len(w.Events) == 0 && w.Dropped == 0 && !w.Gap && p.forced == 0 && p.ended == 0 {
		return nil
	}
	text := "open " + traceWindow(w)
	if len(w.Events) > 0 {
		text += ", since " + traceTime(w.Opened)
	}
	for i, name := range []string{"age", "closing", "continuous", "passive", "flush", "forced", "ended"} {
		if at := *p.deadlines()[i]; at != 0 {
			text += fmt.Sprintf(", %s %s", name, traceTime(at.time()))
		}
	}
	return []string{text}
}

func (r *traceRun) showHeld() []string {
	w, until, ok := r.state.Held()
	if !ok {
		return nil
	}
	return []string{fmt.Sprintf("held %s, since %s%s", traceWindow(w), traceTime(w.Opened), traceUntil(until))}
}

func (r *traceRun) showSlot() []string {
	slot, ok := r.state.Slot()
	if !ok {
		return nil
	}
	w := slot.Window
	text := fmt.Sprintf("slot %s, since %s, settled %s", traceWindow(w), traceTime(w.Opened), traceTime(w.Settled))
	text += traceLease(r.state.slot.lease, slot.Message)
	return []string{text + r.id(r.state.slot.id)}
}

func traceLease(l lease, message string) string {
	text := ""
	if l.fails > 0 {
		text = fmt.Sprintf(", failed %d", l.fails)
	}
	if message != "" {
		text += fmt.Sprintf(", %q", message)
	}
	if l.until != 0 {
		return text + ", with " + traceEngine(l.owner) + traceUntil(l.until.time())
	}
	return text + ", ready " + traceTime(l.ready.time())
}

func (r *traceRun) showLane(name string, of lane) []string {
	var out []string
	for _, j := range of.jobs {
		text := name + " " + traceDecision(j.decision(traceScope)) + traceLease(j.lease, j.message)
		if name == "letter" {
			text = name + " " + traceLetter(j.letter(traceScope)) + traceLease(j.lease, "")
		}
		out = append(out, text+r.id(j.window.id))
	}
	return out
}

func (r *traceRun) showSeen() []string {
	var out []string
	for i, name := range []string{"acts", "others"} {
		var refs []attend.EventRef
		for h := range r.state.seen[i].all() {
			ref, ok := r.names[h]
			if !ok {
				ref.ID = "?"
			}
			refs = append(refs, ref)
		}
		if refs != nil {
			out = append(out, "seen "+name+" "+traceRefs(refs))
		}
	}
	return out
}

func (r *traceRun) showRecent() []string {
	if len(r.state.recent) == 0 {
		return nil
	}
	return []string{"recent " + traceVerdicts(r.state.Recent())}
}

func (r *traceRun) showCursors() []string {
	var out []string
	for _, c := range r.state.cursors {
		out = append(out, fmt.Sprintf("cursor %s %s", c.key, c.place))
	}
	return out
}

func (r *traceRun) showWriters() []string {
	var words []string
	for _, w := range r.state.writers.all() {
		if w.id != 0 {
			words = append(words, fmt.Sprintf("%s#%d", traceEngine(w.id), w.number))
		}
	}
	if words == nil {
		return nil
	}
	return []string{"writers " + strings.Join(words, " ")}
}

// showDue tells when the scope is due, and what the store has been told.
func (r *traceRun) showDue() []string {
	s := &r.state
	text := "due " + traceTime(s.Due()) + ", stored " + traceTime(s.stored.time())
	if s.Expired(r.at) {
		text += ", expired"
	}
	return []string{text}
}

// name remembers which hash is which event's, so that a story can be told of
// the ids that a scope has seen: the state itself does not show them.
func (r *traceRun) name(in Input) {
	a, ok := in.(Arrive)
	if !ok {
		return
	}
	for _, e := range slices.Concat(a.Events) {
		r.names[r.state.key.hash(a.Source, e.ID)] = attend.EventRef{Source: a.Source, ID: e.ID}
	}
}
