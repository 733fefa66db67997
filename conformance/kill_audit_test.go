package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// An auditWorld is a run that has come to its end: two pushes of two events each,
// one of which was acknowledged, a decision on each, and what it took to deliver
// them.
type auditWorld struct {
	pushes  []*killPush
	rows    []attend.Row
	seen    func([]killSeen) []killSeen // what the reader of everything saw
	taken   []attend.DecisionID
	opens   []attend.Row // rows that come when the store is opened anew
	trimmed bool
	loss    time.Duration
	deaths  []killDeath
	begun   time.Time
}

func auditDecision(events ...attend.Event) attend.Row {
	id := attend.NewDecisionID("ops", events)
	return auditRow(decision, id, attend.Decision{
		ID: id, At: noon, Window: attend.Window{Scope: "ops", Events: events, Reason: attend.ReasonClosing},
		Judgment: attend.Judgment{Route: attend.RouteQueue},
	})
}

func auditRow(typ attend.RowType, id attend.DecisionID, body any) attend.Row {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return attend.Row{Scope: "ops", ID: id, Type: typ, At: noon, Body: b}
}

func auditMark(step attend.Step, id attend.DecisionID, events ...attend.Event) attend.Row {
	m := attend.Mark{Step: step, At: noon, ID: id}
	for _, e := range events {
		m.Events = append(m.Events, attend.EventRef{ID: e.ID})
	}
	return auditRow(verdict, id, m)
}

func auditEvent(id string) attend.Event {
	return attend.Event{ID: id, At: noon, Name: "closing.build", Text: "what happened in " + id, Kind: attend.KindClosing, Data: json.RawMessage("{}")}
}

func newAuditWorld() *auditWorld {
	w := &auditWorld{begun: time.Now()}
	for i, ids := range [][]string{{"a", "b"}, {"c", "d"}} {
		p := &killPush{scope: "ops", events: []attend.Event{auditEvent(ids[0]), auditEvent(ids[1])}, tries: 1, sent: w.begun}
		if i == 0 {
			p.acked, p.life = w.begun.Add(time.Second), 1
		}
		d := auditDecision(p.events...)
		w.pushes, w.taken = append(w.pushes, p), append(w.taken, d.ID)
		w.rows = append(w.rows, d, auditMark(attend.StepDelivered, d.ID))
	}
	return w
}

// audit goes through the world.
func (w *auditWorld) audit(t *testing.T) error {
	s := memory.New()
	add := func(rows []attend.Row) {
		if len(rows) == 0 {
			return
		}
		if err := put(t.Context(), s, attend.Write{Scope: "log", Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
	add(w.rows)
	r := newKillRun(t.Context(), Durable{Loss: w.loss, Open: func(string) (attend.ScopeStore, error) {
		add(w.opens)
		return s.Reopen(), nil
	}}, t.Name(), Place{})
	defer r.fail(context.Canceled)
	r.store, r.begun, r.died = s.Reopen(), w.begun, w.deaths
	for _, p := range w.pushes {
		r.book.push(p)
	}
	for _, id := range w.taken {
		r.book.take(killTakenID{id, "ops", w.begun}, 1)
	}
	for _, f := range r.readers {
		if err := f.catchUp(t.Context(), s.Log()); err != nil {
			t.Fatal(err)
		}
	}
	if all := r.readers[0]; w.seen != nil {
		all.segments[0].rows = w.seen(all.segments[0].rows)
	}
	if w.trimmed {
		if err := s.Log().Trim(t.Context(), attend.Retain{Count: 1}, noon); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.audit()
	return err
}

func TestKillAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*auditWorld)
		want   string // empty: nothing broke
	}{
		{"right", func(*auditWorld) {}, ""},
		{"never acknowledged, nowhere", func(w *auditWorld) { w.rows, w.taken = w.rows[:2], w.taken[:1] }, ""},
		{"never acknowledged, skipped", func(w *auditWorld) {
			w.rows, w.taken = append(w.rows[:2], auditMark(attend.StepSkipped, "x", w.pushes[1].events...)), w.taken[:1]
		}, ""},
		{"sink gave up", func(w *auditWorld) {
			w.rows[1] = auditRow(letter, w.rows[0].ID, attend.DeadLetter{ID: w.rows[0].ID, Stage: attend.StageSink, Window: attend.Window{Scope: "ops", Events: w.pushes[0].events}})
		}, ""},
		{"judge gave up", func(w *auditWorld) {
			l := attend.DeadLetter{ID: w.rows[0].ID, Stage: attend.StageJudge, Window: attend.Window{Scope: "ops", Events: w.pushes[0].events}}
			w.rows, w.taken = append(w.rows[2:], auditRow(letter, l.ID, l)), w.taken[1:]
		}, ""},
		{"acknowledged, nowhere", func(w *auditWorld) { w.rows, w.taken = w.rows[2:], w.taken[1:] }, "an acknowledged push is gone: its 2 events (a"},
		{"half of a push", func(w *auditWorld) {
			d := auditDecision(w.pushes[1].events[0])
			w.rows = append(w.rows[:2], d, auditMark(attend.StepDelivered, d.ID))
			w.taken[1] = d.ID
		}, "half a write landed: 1 of the 2 events of a push (c … d)"},
		{"two decisions", func(w *auditWorld) {
			d := auditDecision(w.pushes[0].events[1])
			w.rows = append(w.rows, d, auditMark(attend.StepDelivered, d.ID))
		}, "an event has 2 fates: b of"},
		{"decided and dropped", func(w *auditWorld) {
			w.rows = append(w.rows, auditMark(attend.StepDropped, "", w.pushes[0].events[0]))
		}, "an event has 2 fates: a of"},
		{"one decision twice", func(w *auditWorld) { w.rows = append(w.rows, w.rows[0]) }, "is 2 times in the log"},
		{"an event twice in a window", func(w *auditWorld) {
			e := w.pushes[0].events
			d := auditDecision(e[0], e[1], e[0])
			w.rows[0], w.rows[1], w.taken[0] = d, auditMark(attend.StepDelivered, d.ID), d.ID
		}, "a window has an event twice: a in"},
		{"another text", func(w *auditWorld) { w.pushes[0].events[1].Text = "else" }, "event b in decision"},
		{"an event of nobody", func(w *auditWorld) {
			d := auditDecision(auditEvent("z"))
			w.rows = append(w.rows, d, auditMark(attend.StepDelivered, d.ID))
		}, "was never pushed"},
		{"another id", func(w *auditWorld) {
			id, e := w.rows[0].ID, w.pushes[0].events
			w.rows[0] = auditRow(decision, id, attend.Decision{
				ID: id, At: noon, Window: attend.Window{Scope: "ops", Events: []attend.Event{e[1], e[0]}, Reason: attend.ReasonClosing},
				Judgment: attend.Judgment{Route: attend.RouteQueue},
			})
		}, "has another id than its 2 events"},
		{"filed under another", func(w *auditWorld) { w.rows[0].ID, w.rows[2].ID = w.rows[2].ID, w.rows[0].ID }, "holds"},
		{"no mark", func(w *auditWorld) { w.rows = w.rows[:3] }, "0 rows say how"},
		{"two marks", func(w *auditWorld) { w.rows = append(w.rows, w.rows[3]) }, "2 rows say how"},
		{"delivered, not decided", func(w *auditWorld) { w.taken = append(w.taken, "nothing") }, "decision nothing of \"ops\" was delivered at"},
		{"a row that a reader saw is gone", func(w *auditWorld) {
			w.seen = func(s []killSeen) []killSeen { return append(s, s[3]) }
		}, "saw at"},
		{"a row that a reader did not see", func(w *auditWorld) {
			w.seen = func(s []killSeen) []killSeen { return s[:3] }
		}, "did not see its last 1 rows"},
		{"a gap", func(w *auditWorld) {
			w.seen = func(s []killSeen) []killSeen { return slices.Delete(s, 1, 2) }
		}, "saw other rows"},
		{"another body", func(w *auditWorld) {
			w.seen = func(s []killSeen) []killSeen { s[0].Sum++; return s }
		}, "saw other rows"},
		{"a row that comes late", func(w *auditWorld) {
			w.opens = []attend.Row{auditMark(attend.StepWaited, "x")}
		}, "did not see its last 1 rows"},
		{"trimmed", func(w *auditWorld) { w.trimmed = true }, "trimmed"},
	} {
		w := newAuditWorld()
		c.change(w)
		err := w.audit(t)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What was acknowledged within Loss of a kill may be gone, where the epoch says
// so.
func TestKillAuditOfLoss(t *testing.T) {
	for _, c := range []struct {
		name    string
		kill    time.Duration // after the acknowledgement
		noticed bool
		want    string
	}{
		{"within", 900 * time.Millisecond, true, ""},
		{"answered before, heard of after", -300 * time.Millisecond, true, ""},
		{"too old", 1100 * time.Millisecond, true, "may lose 1s"},
		{"not noticed", 900 * time.Millisecond, false, "nobody can notice"},
		{"before it was sent", -2 * time.Second, true, "the server was not killed afterwards"},
	} {
		w := newAuditWorld()
		w.rows, w.taken = w.rows[2:], w.taken[1:] // the first push is gone
		w.loss = time.Second
		at := w.begun.Add(time.Second + c.kill)
		w.deaths = []killDeath{{at: at, gone: at.Add(time.Millisecond), noticed: c.noticed}}
		err := w.audit(t)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestKillReader(t *testing.T) {
	row := func(epoch string, p attend.Position) killRow {
		return killRow{Cursor: attend.LogCursor{Epoch: epoch, Position: p}, Type: decision, ID: "d"}
	}
	for _, c := range []struct {
		name  string
		lossy bool
		do    func(*killReader) error
		want  string
	}{
		{"rising with gaps", false, func(f *killReader) error { return errors.Join(f.add(row("e", 1)), f.add(row("e", 5))) }, ""},
		{"a row twice", false, func(f *killReader) error { return errors.Join(f.add(row("e", 1)), f.add(row("e", 1))) }, "is handed a row at position 1"},
		{"a row before", false, func(f *killReader) error { return errors.Join(f.add(row("e", 2)), f.add(row("e", 1))) }, "is handed a row at position 1"},
		{"no epoch", false, func(f *killReader) error { return f.add(row("", 1)) }, "is handed a row"},
		{"another epoch unasked", true, func(f *killReader) error { return errors.Join(f.add(row("e", 1)), f.add(row("x", 2))) }, "epoch changed under a reader"},
		{"truncated", false, func(f *killReader) error {
			return errors.Join(f.add(row("e", 1)), f.truncated(&attend.TruncatedError{Oldest: attend.LogCursor{Epoch: "x"}}))
		}, "is told that it is truncated"},
		{"truncated after a loss", true, func(f *killReader) error {
			return errors.Join(f.add(row("e", 3)), f.truncated(&attend.TruncatedError{Oldest: attend.LogCursor{Epoch: "x"}}), f.add(row("x", 1)))
		}, ""},
		{"truncated after a loss in the same epoch", true, func(f *killReader) error {
			return errors.Join(f.add(row("e", 3)), f.truncated(&attend.TruncatedError{Oldest: attend.LogCursor{Epoch: "e"}}))
		}, "was not noticed"},
	} {
		err := c.do(&killReader{lossy: c.lossy})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What the load asked for may land after it has ended: no scope is at rest while
// a child that lives on has yet to answer.
func TestKillRestWaitsForAnswers(t *testing.T) {
	d := Durable{Processes: 1, patience: time.Minute}
	r := newKillRun(t.Context(), d, t.Name(), Place{})
	r.serves, r.store = true, memory.New()
	l := &killLife{run: r, waiting: map[int]chan *killAnswer{7: make(chan *killAnswer, 1)}, acks: make(chan struct{}, 1)}
	r.workers[0].life.Store(l)
	scopes := []attend.Scope{"ops"}
	if busy, _, err := r.restless(scopes); busy == "" || err != nil {
		t.Errorf("at rest (%v) with a request that has no answer", err)
	}
	if err := l.hear(&killReply{Answer: &killAnswer{Number: 7}}); err != nil {
		t.Fatal(err)
	}
	if busy, why, err := r.restless(scopes); busy != "" || err != nil {
		t.Errorf("not at rest (%s, %v) though all is answered", why, err)
	}
}
