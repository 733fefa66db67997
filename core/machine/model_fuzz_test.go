package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// FuzzModel steps the machine and the model through the same session and
// compares all that can be seen of them after each input.
func FuzzModel(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(fuzzBytes(seed, 300))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := modelSession(b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestModel is FuzzModel on sessions that are the same each time, and prints
// the shortest that fails.
func TestModel(t *testing.T) {
	sessions := uint64(800)
	if testing.Short() {
		sessions = 200
	}
	for seed := range sessions {
		b := fuzzBytes(seed, 100+int(seed%8)*100)
		if err := modelSession(b); err != nil {
			b = fuzzShrink(b, func(b []byte) bool { return modelSession(b) != nil })
			t.Fatalf("seed %d: %v", seed, modelSession(b))
		}
	}
}

// A modelRun is the two side by side. Their numbers differ: pairs says which
// stand for each other.
type modelRun struct {
	s       State
	m       modelScope
	toModel map[uint64]uint64
	taken   map[uint64]bool
}

func newModelRun() *modelRun {
	return &modelRun{toModel: map[uint64]uint64{0: 0}, taken: map[uint64]bool{}}
}

func modelSession(b []byte) error {
	g, r := newModelGen(b), newModelRun()
	for n := 0; g.more() && n < 300; n++ {
		if err := r.step(g.next(r.s)); err != nil {
			return fmt.Errorf("%w\n%s", err, fuzzStory(g.sent))
		}
	}
	return nil
}

func (r *modelRun) step(in Input) error {
	s, fx := Step(r.s, in)
	m, mfx := modelApply(r.m, r.translate(in))
	if err := r.pair(s, m); err != nil {
		return err
	}
	r.s, r.m = s, m
	if got, want := modelStateView(s), r.view(m); got != want {
		return errors.New("state, machine and model:\n" + modelDiff(got, want))
	}
	if got, want := modelEffectsView(fx), r.effects(m, mfx); got != want {
		return errors.New("effects, machine and model:\n" + modelDiff(got, want))
	}
	if s.scope == "" {
		return nil
	}
	for _, later := range []int64{0, 1, 1000, 60_000} {
		at := int64(s.now) + later
		w, want := s.Work(time.UnixMilli(at)), m.work(at)
		if got := [3]uint64{r.toModel[w.Judge], r.toModel[w.Decision], r.toModel[w.Letter]}; got != want {
			return fmt.Errorf("Work(%d) = %v, want %v", at, got, want)
		}
	}
	return nil
}

// translate is the input as the model knows its numbers; what it can't know
// becomes a number that it never gives out.
func (r *modelRun) translate(in Input) Input {
	num := func(n uint64) uint64 {
		if n == 0 {
			return 0
		}
		if m, ok := r.toModel[n]; ok {
			return m
		}
		return 1 << 60
	}
	switch in := in.(type) {
	case Claim:
		in.Num = num(in.Num)
		return in
	case Judged:
		in.Num, in.Attempt = num(in.Num), num(in.Attempt)
		return in
	case Failed:
		in.Num, in.Attempt = num(in.Num), num(in.Attempt)
		return in
	case Done:
		in.Num = num(in.Num)
		return in
	case GiveBack:
		in.Num, in.Attempt = num(in.Num), num(in.Attempt)
		return in
	}
	return in
}

// pair notes which number of the machine stands for which of the model. None
// may ever stand for two.
func (r *modelRun) pair(s State, m modelScope) error {
	var list [][2]uint64
	if s.slot != nil && m.slot != nil {
		list = append(list, [2]uint64{s.slot.num, m.slot.num}, [2]uint64{s.slot.lease.attempt, m.slot.lease.attempt})
	}
	for i, l := range [][]*job{s.decisions.jobs, s.letters.jobs} {
		for k, j := range [][]modelJob{m.decisions, m.letter}[i] {
			if k < len(l) {
				list = append(list, [2]uint64{l[k].num, j.num}, [2]uint64{l[k].lease.attempt, j.lease.attempt})
			}
		}
	}
	for _, p := range list {
		if was, ok := r.toModel[p[0]]; ok && was != p[1] || !ok && r.taken[p[1]] {
			return fmt.Errorf("number %d was %d to the model, now %d", p[0], was, p[1])
		}
		r.toModel[p[0]] = p[1]
		r.taken[p[1]] = true
	}
	return nil
}

// modelDiff is the lines in which two texts differ.
func modelDiff(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "  machine %s\n  model   %s\n", x, y)
		}
	}
	return out.String()
}

func modelEventView(e *attend.Event, taken int64) string {
	s := fmt.Sprintf(" %s:%s:%d", e.ID, e.Kind, taken)
	if e.Source != "" {
		s += ":" + e.Source
	}
	if len(e.Data) > 0 || e.Text != "" || !e.At.IsZero() {
		s += fmt.Sprintf(":%d%s%d", len(e.Data), e.Text, e.At.UnixMilli())
	}
	return s
}

func modelEntriesView(list []*entry) string {
	var b strings.Builder
	for i, e := range events(list) {
		b.WriteString(modelEventView(&e, int64(list[i].taken)))
	}
	return b.String()
}

// modelStateView is all that the rules say of a state, a line a part.
func modelStateView(s State) string {
	if s.scope == "" {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s now %d stored %d due %d\n%+v\n", s.scope, s.now, s.stored, s.due(), *s.policy)
	for _, w := range s.writers.all() {
		fmt.Fprintf(&b, "writer %d:%d ", w.id, w.number)
	}
	for _, c := range s.cursors {
		fmt.Fprintf(&b, "cursor %s:%s ", c.key, c.place)
	}
	for k := range s.seen {
		fmt.Fprintf(&b, "\nseen %d of %d: %x", k, s.brought[k], slices.Collect(s.seen[k].all()))
	}
	b.WriteString("\nrecent ")
	for _, v := range s.recent {
		fmt.Fprintf(&b, "%s %s %d %v; ", v.ID, v.Reason, v.Events, v.Judgment)
	}
	p := &s.open
	fmt.Fprintf(&b, "\nopen%s\nopened %d dropped %d waits %d gap %v age %d closing %d continuous %d passive %d flush %d forced %d ended %d\n",
		modelEntriesView(p.appendTo(nil)), p.opened, p.dropped, p.waits, p.gap, p.age, p.closing, p.continuous, p.passive, p.flush, p.forced, p.ended)
	if h := s.held; h != nil {
		fmt.Fprintf(&b, "held%s\nopened %d dropped %d waits %d gap %v until %d\n", modelEntriesView(h.appendTo(nil)), h.opened, h.dropped, h.waits, h.gap, h.until)
	}
	if w := s.slot; w != nil {
		fmt.Fprintf(&b, "slot%s\n%s %s settled %d opened %d dropped %d waits %d gap %v since %d outages %d %q\noffer %v lease %v\n",
			modelEntriesView(w.entries), w.id, w.reason, w.settled, w.opened, w.dropped, w.waits, w.gap, w.since, w.outages, w.message,
			w.offered(s.policy), modelLeaseView(w.lease.attempt != 0, w.lease.owner, int64(w.lease.until), int64(w.lease.ready), w.lease.fails))
	}
	for i, l := range [][]*job{s.decisions.jobs, s.letters.jobs} {
		for _, j := range l {
			w := j.window
			fmt.Fprintf(&b, "%s %s%s %s settled %d opened %d dropped %d waits %d gap %v decided %d %v %q %q %d lease %v\n",
				[]string{"decision", "letter"}[i], w.id, modelEntriesView(w.entries), w.reason, w.settled, w.opened, w.dropped, w.waits, w.gap,
				j.decided, j.judgment, j.stage, j.message, j.attempts,
				modelLeaseView(j.lease.attempt != 0, j.lease.owner, int64(j.lease.until), int64(j.lease.ready), j.lease.fails))
		}
	}
	return b.String()
}

func modelLeaseView(tried bool, owner uint64, until, ready int64, fails int) string {
	if until == 0 {
		return fmt.Sprintf("ready %d fails %d tried %v", ready, fails, tried)
	}
	return fmt.Sprintf("owner %d until %d fails %d tried %v", owner, until, fails, tried)
}

func modelEventsView(list []modelEvent) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(modelEventView(&list[i].Event, list[i].taken))
	}
	return b.String()
}

// view is modelStateView for the model.
func (r *modelRun) view(m modelScope) string {
	if m.name == "" {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s now %d stored %d due %d\n%+v\n", m.name, m.now, m.stored, m.due(), m.p)
	for _, w := range m.writers {
		fmt.Fprintf(&b, "writer %d:%d ", w.id, w.number)
	}
	for _, k := range []string{"a", "b"} {
		if c := m.cursors[k]; c != "" {
			fmt.Fprintf(&b, "cursor %s:%s ", k, c)
		}
	}
	for k, list := range m.seen {
		var hashes []uint64
		for _, id := range list {
			source, id, _ := strings.Cut(id, "\x00")
			hashes = append(hashes, r.s.key.hash(source, id))
		}
		fmt.Fprintf(&b, "\nseen %d of %d: %x", k, m.brought[k], hashes)
	}
	b.WriteString("\nrecent ")
	for _, v := range m.recent {
		fmt.Fprintf(&b, "%s %s %d %v; ", v.ID, v.Reason, v.Events, v.Judgment)
	}
	d := map[attend.Kind]int64{}
	age, flush := int64(0), int64(0)
	for _, e := range m.open.events {
		if e.quiet != 0 {
			d[e.Kind] = e.quiet
		}
		if e.age != 0 {
			age = e.age
		}
		if e.Kind == attend.KindFlush && flush == 0 {
			flush = e.taken
		}
	}
	w := &m.open
	fmt.Fprintf(&b, "\nopen%s\nopened %d dropped %d waits %d gap %v age %d closing %d continuous %d passive %d flush %d forced %d ended %d\n",
		modelEventsView(w.events), w.opened, w.dropped, w.waits, w.gap, age, d[attend.KindClosing], d[attend.KindContinuous], d[attend.KindPassive], flush, m.forced, m.ended)
	if h := m.held; h != nil {
		fmt.Fprintf(&b, "held%s\nopened %d dropped %d waits %d gap %v until %d\n", modelEventsView(h.events), h.opened, h.dropped, h.waits, h.gap, h.until)
	}
	if w := m.slot; w != nil {
		fmt.Fprintf(&b, "slot%s\n%s %s settled %d opened %d dropped %d waits %d gap %v since %d outages %d %q\noffer %v lease %v\n",
			modelEventsView(w.events), w.id, w.reason, w.settled, w.opened, w.dropped, w.waits, w.gap, w.since, w.outages, w.message,
			m.offer(w), modelLeaseView(w.lease.attempt != 0, w.lease.owner, w.lease.until, w.lease.ready, w.lease.fails))
	}
	for i, l := range [][]modelJob{m.decisions, m.letter} {
		for _, j := range l {
			w := j.w
			fmt.Fprintf(&b, "%s %s%s %s settled %d opened %d dropped %d waits %d gap %v decided %d %v %q %q %d lease %v\n",
				[]string{"decision", "letter"}[i], w.id, modelEventsView(w.events), w.reason, w.settled, w.opened, w.dropped, w.waits, w.gap,
				j.decided, j.judgment, j.stage, j.message, j.attempts,
				modelLeaseView(j.lease.attempt != 0, j.lease.owner, j.lease.until, j.lease.ready, j.lease.fails))
		}
	}
	return b.String()
}

// modelEffectsView is what a step asked for. Rows of one kind are taken
// together: their number and order is not what the rules are about.
func modelEffectsView(fx Effects) string {
	var rows []modelRow
	for _, row := range fx.Rows {
		r := modelRow{what: string(row.Type), id: row.ID}
		names := func(events []attend.Event) {
			for _, e := range events {
				r.events = append(r.events, e.Source+"\x00"+e.ID)
			}
		}
		switch row.Type {
		case attend.RowDecision:
			var d attend.Decision
			if err := json.Unmarshal(row.Body, &d); err != nil {
				r.what = err.Error()
			}
			names(d.Window.Events)
		case attend.RowLetter:
			var l attend.DeadLetter
			if err := json.Unmarshal(row.Body, &l); err != nil {
				r.what = err.Error()
			}
			r.what += " " + string(l.Stage)
			names(l.Window.Events)
		case attend.RowVerdict:
			var m attend.Mark
			if err := json.Unmarshal(row.Body, &m); err != nil {
				r.what = err.Error()
			}
			r.what = strings.TrimSpace(string(m.Step) + " " + string(m.Why))
			for _, e := range m.Events {
				r.events = append(r.events, e.Source+"\x00"+e.ID)
			}
		}
		rows = append(rows, r)
	}
	granted := ""
	if fx.Call != nil {
		granted += fmt.Sprintf("judge %d events, recent %d, routes %v", len(fx.Call.Window.Events), len(fx.Call.Recent), fx.Call.Routes)
	}
	if fx.Delivery != nil {
		granted += fmt.Sprintf("deliver %s", fx.Delivery.Decision.ID)
	}
	if fx.Letter != nil {
		granted += fmt.Sprintf("letter %s", fx.Letter.Letter.ID)
	}
	return fmt.Sprintf("changed %v forget %v refused %v fresh %d repeats %v batch %d place %q moved %v\n%s\n%s",
		fx.Changed, fx.Forget, fx.Refused, fx.Fresh, fx.Repeats, fx.Batch, fx.Place, fx.MoveDue, granted, modelRowsView(rows))
}

func (r *modelRun) effects(m modelScope, fx modelEffects) string {
	granted := ""
	if fx.granted {
		switch fx.asked {
		case LaneJudge:
			granted = fmt.Sprintf("judge %d events, recent %d, routes %v", len(m.slot.events), len(m.recent), m.offer(m.slot))
		case LaneDecision:
			granted = fmt.Sprintf("deliver %s", m.decisions[0].w.id)
		case LaneLetter:
			granted = fmt.Sprintf("letter %s", m.letter[m.nextLetter(m.now)].w.id)
		}
	}
	return fmt.Sprintf("changed %v forget %v refused %v fresh %d repeats %v batch %d place %q moved %v\n%s\n%s",
		fx.changed, fx.forget, fx.refused, fx.fresh, fx.repeats, fx.batch, fx.place, fx.moved, granted, modelRowsView(fx.rows))
}

func modelRowsView(rows []modelRow) string {
	merged := map[string][]string{}
	for _, r := range rows {
		k := r.what + " " + string(r.id)
		merged[k] = append(merged[k], r.events...)
	}
	var lines []string
	for k, events := range merged {
		lines = append(lines, fmt.Sprintf("%s %q", k, events))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
