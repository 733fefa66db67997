package inspect_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/server/inspect"
)

// Two sources can have brought an event of one id each: two lives.
func TestTwoSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteSkip})
		defer w.end()
		w.push("e", "consequence.log")
		w.attach("feed", "e", "flush.asked")
		w.push("e2", "flush.asked")
		wait(second)
		x := w.explain("e")
		if len(x.Lives) != 2 || x.Lives[0].Source != "" || x.Lives[1].Source != "feed" {
			t.Fatalf("lives: %+v", x.Lives)
		}
		for _, l := range x.Lives {
			if l.Fate != inspect.FateSkipped || len(l.Steps) != 2 {
				t.Errorf("the life of %q: %s, %d steps", l.Source, l.Fate, len(l.Steps))
			}
		}
	})
}

// An id that is part of another one is not that one.
func TestIDsAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteSkip})
		defer w.end()
		w.push("e1", "flush.asked", `a"e"<&`, "consequence.log")
		w.push(`<a/b "\é>`, "flush.asked")
		wait(second)
		for _, id := range []string{"e", "1", `"e"`} {
			if x := w.explain(id); len(x.Lives) > 0 {
				t.Errorf("%q: %s", id, x.Text(nil))
			}
		}
		if x := w.explain(`<a/b "\é>`); len(x.Lives) != 1 {
			t.Errorf("an id with all that JSON escapes: %s", x.Text(nil))
		}
	})
}

// A state that is older than the rows has the event where it was: the rows are
// right.
func TestStateOlderThanRows(t *testing.T) {
	for _, c := range []struct {
		name   string
		config engine.Config
		script []attendtest.Answer
		want   inspect.Fate
	}{
		{"skipped since", engine.Config{}, []attendtest.Answer{{Route: attend.RouteSkip}}, inspect.FateSkipped},
		{"held since", engine.Config{}, []attendtest.Answer{{Route: attend.RouteWait}}, inspect.FateHeld},
		{"decided and delivered since", engine.Config{}, []attendtest.Answer{{Route: attend.RouteNote}}, inspect.FateDelivered},
		{"decided since", engine.Config{OmitVerdicts: true}, []attendtest.Answer{{Route: attend.RouteNote}}, inspect.FateDelivering},
		{"logged since", engine.Config{Sink: attend.LogOnly}, []attendtest.Answer{{Route: attend.RouteNote}}, inspect.FateLogged},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.config, c.script...)
				defer w.end()
				w.push("e", "closing.build")
				old, err := inspect.Load(t.Context(), w.store, scope)
				if err != nil {
					t.Fatal(err)
				}
				wait(time.Second)
				q := inspect.Question{Scope: scope, Event: "e"}
				h, err := inspect.Read(t.Context(), w.store.Log(), q, inspect.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				x := inspect.Explain(q, &old, h)
				if len(x.Lives) != 1 || x.Lives[0].Fate != c.want || strings.Contains(x.Text(nil), "open window") || strings.Contains(x.Text(nil), "not known") {
					t.Errorf("want %s: %s", c.want, x.Text(nil))
				}
			})
		})
	}
}

// What retention took is said, and nothing is made up.
func TestTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{}, attendtest.Answer{Route: attend.RouteNote})
		defer w.end()
		w.push("e", "flush.asked")
		wait(second)
		w.push("f", "flush.asked")
		wait(second)
		if err := w.store.Log().Trim(t.Context(), attend.Retain{Verdicts: 1}, time.Now()); err != nil {
			t.Fatal(err)
		}
		x := w.explain("e")
		if !x.Trimmed || len(x.Lives) != 1 || x.Lives[0].Fate != inspect.FateDecided || !strings.Contains(x.Text(nil), "retention took rows") {
			t.Errorf("without its delivery: %s", x.Text(nil))
		}
		if err := w.store.Log().Trim(t.Context(), attend.Retain{Count: 1, Verdicts: 1}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if x := w.explain("e"); len(x.Lives) > 0 || x.Text(nil) != "Nothing is known of event e in ops/db.\nRetention has trimmed the log: what is older may have been there.\n" {
			t.Errorf("without any row: %s", x.Text(nil))
		}
		if x := w.explain("f"); len(x.Lives) != 1 || x.Lives[0].Fate != inspect.FateDelivered {
			t.Errorf("the one that is kept: %s", x.Text(nil))
		}
	})
}

// Rows that can't be read are counted, where they may be about the event.
func TestUnreadableRows(t *testing.T) {
	var s machine.State
	h := inspect.History{}
	for i, typ := range []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict, "of a newer release"} {
		for j, body := range []string{`"e"`, `{"id":"e"`, `["e"]`, `{"x":"e","events":[{"id":7}]}`, `{"id":`} {
			h.Rows = append(h.Rows, attend.Entry{
				Cursor: attend.LogCursor{Epoch: "x", Position: attend.Position(5*i + j + 1)},
				Row:    attend.Row{Scope: scope, Type: typ, Body: []byte(body)},
			})
		}
	}
	x := inspect.Explain(inspect.Question{Scope: scope, Event: "e"}, &s, h)
	// A decision and a letter have no events field, which is one fewer each.
	if len(x.Lives) > 0 || x.Unreadable != 3+3+4 || !strings.Contains(x.Text(nil), "10 rows of the log can't be read.") {
		t.Errorf("unreadable: %d, %s", x.Unreadable, x.Text(nil))
	}
}

// A row that names an event twice tells of it once.
func TestNamedTwice(t *testing.T) {
	m := attend.Mark{Step: attend.StepDropped, Why: attend.WhyStale, At: time.UnixMilli(1), Events: []attend.EventRef{{ID: "e"}, {ID: "f"}, {ID: "e"}}}
	body, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	h := inspect.History{Rows: []attend.Entry{{Cursor: attend.LogCursor{Epoch: "x", Position: 1}, Row: attend.Row{Scope: scope, Type: attend.RowVerdict, At: m.At, Body: body}}}}
	x := inspect.Explain(inspect.Question{Scope: scope, Event: "e"}, new(machine.State), h)
	if len(x.Lives) != 1 || len(x.Lives[0].Steps) != 1 {
		t.Errorf("lives: %+v", x.Lives)
	}
}

// Nothing that a producer wrote can steer a terminal or begin a line.
func TestTextIsSafe(t *testing.T) {
	evil := "a\nb\x1b[2J\u202e\u2028\u200b\x9b"
	mark := attend.Mark{Step: attend.StepSkipped, At: time.UnixMilli(1), ID: "i", Reason: attend.Reason(evil), Events: []attend.EventRef{{ID: "e", Source: evil}},
		Judgment: attend.Judgment{Route: attend.Route(evil), Predicates: map[string]float64{evil: 1}}}
	decision := attend.Decision{ID: attend.DecisionID(evil), Window: attend.Window{Reason: attend.Reason(evil), Events: []attend.Event{{ID: "e", Name: evil, Source: evil, Kind: attend.Kind(evil)}}}}
	letter := attend.DeadLetter{ID: "l", Stage: attend.Stage(evil), Message: evil, Window: decision.Window}
	taken := attend.Mark{Step: attend.StepTaken, Stage: attend.Stage(evil), Reason: attend.Reason(evil), Events: mark.Events}
	drop := attend.Mark{Step: attend.StepDropped, Why: attend.Why(evil), Events: mark.Events}
	var h inspect.History
	for i, v := range []json.Marshaler{mark, decision, letter, taken, drop} {
		body, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		typ := []attend.RowType{attend.RowVerdict, attend.RowDecision, attend.RowLetter, attend.RowVerdict, attend.RowVerdict}[i]
		h.Rows = append(h.Rows, attend.Entry{Cursor: attend.LogCursor{Position: attend.Position(i + 1)}, Row: attend.Row{Type: typ, Body: body}})
	}
	x := inspect.Explain(inspect.Question{Scope: attend.Scope(evil), Event: "e"}, new(machine.State), h)
	steps := 0
	for _, l := range x.Lives {
		steps += len(l.Steps)
	}
	text := x.Text(nil)
	if lines := strings.Count(text, "\n"); len(x.Lives) != 1 || steps < 8 || lines != 1+steps {
		t.Errorf("%d lives, %d steps, %d lines: %q", len(x.Lives), steps, lines, text)
	}
	for _, r := range text {
		if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r == '\u202e' || r == '\u2028' || r == '\u200b') {
			t.Errorf("the text holds %q", r)
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		q     inspect.Question
		field string
	}{
		{inspect.Question{Scope: "", Event: "e"}, "scope"},
		{inspect.Question{Scope: "a\x00", Event: "e"}, "scope"},
		{inspect.Question{Scope: "a", Event: ""}, "event"},
		{inspect.Question{Scope: "a", Event: "\n"}, "event"},
		{inspect.Question{Scope: "a", Event: "\xff"}, "event"},
		{inspect.Question{Scope: "a", Event: strings.Repeat("x", 257)}, "event"},
		{inspect.Question{Scope: "a", Event: strings.Repeat("x", 256)}, ""},
	} {
		err := c.q.Check()
		if c.field == "" && err != nil || c.field != "" && (err == nil || !strings.Contains(err.Error(), c.field)) {
			t.Errorf("Check of %.20q = %v, want one about %q", c.q, err, c.field)
		}
	}
}

// A scope that came up between the state and the rows was not removed.
func TestScopeThatJustCameUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, engine.Config{Sink: attend.LogOnly}, attendtest.Answer{Route: attend.RouteNote})
		defer w.end()
		late := &lateStore{ScopeStore: w.store, before: func() {
			w.push("e", "flush.asked")
			wait(second)
		}}
		x, err := inspect.FromStore(t.Context(), late, inspect.Question{Scope: scope, Event: "e"})
		if err != nil || len(x.Lives) != 1 || x.Lives[0].Fate != inspect.FateLogged {
			t.Errorf("%v: %s", err, x.Text(nil))
		}
	})
}

// A lateStore does something behind its first Load.
type lateStore struct {
	attend.ScopeStore
	before func()
}

func (s *lateStore) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	r, err := s.ScopeStore.Load(ctx, scope)
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return r, err
}
