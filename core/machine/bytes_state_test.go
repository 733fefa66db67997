package machine

import (
	"encoding/json"
	"fmt"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// bytesTellState tells all that a state holds, a line a part. It says nothing of
// how the state holds it, so that this can change.
func bytesTellState(s State) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("scope %s", s.scope)
	say("policy %s", bytesTellPolicy(s.policy))
	say("key %x serial %d now %d stored %d brought %v", s.key, s.serial, s.now, s.stored, s.brought)
	for _, w := range s.writers.all() {
		if w.id != 0 {
			say("writer %d number %d", w.id, w.number)
		}
	}
	for _, c := range s.cursors {
		say("cursor %s %s", c.key, c.place)
	}
	for i, name := range [...]string{"acts", "others"} {
		for h := range s.seen[i].all() {
			say("seen %s %016x", name, h)
		}
	}
	for _, v := range s.recent {
		say("recent %s", bytesJSON(v))
	}
	pile := func(name string, p *pile, w attend.Window) {
		say("%s %s", name, bytesJSON(w))
		say("%s taken %s deadlines %s", name, bytesTaken(p.appendTo(nil)), bytesDeadlines(p))
	}
	pile("open", &s.open, s.Window())
	if s.held != nil {
		w, until, _ := s.Held()
		pile("held", &s.held.pile, w)
		say("held until %d", until.UnixMilli())
	}
	if s.slot != nil {
		say("slot %d %s %s", s.slot.num, s.slot.id, bytesJSON(s.slot.window(s.scope)))
		say("slot taken %s %s since %d outages %d %q", bytesTaken(s.slot.entries), bytesLease(s.slot.lease), s.slot.since, s.slot.outages, s.slot.message)
	}
	for _, j := range s.decisions.jobs {
		say("decision %d %s", j.num, bytesJSON(j.decision(s.scope)))
		say("decision taken %s %s %q", bytesTaken(j.window.entries), bytesLease(j.lease), j.message)
	}
	for _, j := range s.letters.jobs {
		say("letter %d %s", j.num, bytesJSON(j.letter(s.scope)))
		say("letter taken %s %s", bytesTaken(j.window.entries), bytesLease(j.lease))
	}
	return b.String()
}

func bytesJSON(v json.Marshaler) string {
	b, err := v.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func bytesTaken(entries []*entry) string {
	var at []ms
	for _, e := range entries {
		at = append(at, e.taken)
	}
	return fmt.Sprint(at)
}

func bytesDeadlines(p *pile) string {
	var at []ms
	for _, d := range p.deadlines() {
		at = append(at, *d)
	}
	return fmt.Sprint(at)
}

func bytesLease(l lease) string {
	return fmt.Sprintf("attempt %d owner %d until %d ready %d fails %d", l.attempt, l.owner, l.until, l.ready, l.fails)
}
