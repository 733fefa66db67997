package attend_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"reflect"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/vectors"
)

func at(ms int64) time.Time { return time.UnixMilli(ms) }

const anID = attend.DecisionID("12de4b07a17a3bfd34a380d369a47dfdc65e5c6a")

func forcedWindow(scope attend.Scope) attend.Window {
	return attend.Window{
		Scope:   scope,
		Reason:  attend.ReasonForced,
		Events:  []attend.Event{{ID: "e-1", Name: "message", Data: json.RawMessage(`{}`), Kind: attend.KindFlush}},
		Opened:  at(1767225600500),
		Settled: at(1767225600500),
	}
}

// wireValues has the value of each file in vectors/wire, cursor.json aside.
func wireValues() map[string]any {
	letterDecision := attend.Decision{
		ID: anID, At: at(1767225601250), Window: forcedWindow("ops/db"),
		Judgment: attend.Judgment{Route: attend.RouteQueue},
	}
	return map[string]any{
		"event.json": &attend.Event{
			ID: "build-4711", At: at(1767225600123), Name: "build.finished",
			Data: json.RawMessage(`{"branch":"main","took":12345678901234567890.50,"tags":["a < b",null],"took":-0}`),
			Text: "Build 4711 of “main” failed: 3 > 2 & more", Source: "log:ci", Kind: attend.KindClosing,
		},
		"event_minimal.json": &attend.Event{ID: "1", Name: "tick"},
		"window.json": &attend.Window{
			Reason: attend.ReasonHorizon,
			Events: []attend.Event{
				{ID: "m-1", At: at(1767225600000), Name: "message", Data: json.RawMessage(`{}`), Text: "can you look at this?", Kind: attend.KindContinuous},
				{ID: "l-1", Name: "log.line", Data: json.RawMessage(`[1,2]`), Source: "log:app", Kind: attend.KindConsequence},
			},
			Opened: at(1767225600001), Settled: at(1767225610001), Dropped: 3, Gap: true, Waits: 2,
		},
		"window_minimal.json": &attend.Window{Events: []attend.Event{}},
		"judgment.json": &attend.Judgment{
			Route: attend.RouteAsk,
			Probabilities: map[attend.Route]float64{
				attend.RouteInterrupt: 0.125, attend.RouteQueue: 0.25, attend.RouteNote: 0,
				attend.RouteAsk: 0.5, attend.RouteSkip: 0.1, attend.RouteWait: 0.025,
			},
			Predicates: map[string]float64{"urgent": 1e-9, "is anybody waiting?": 1},
			Confidence: 0.75,
		},
		"judgment_minimal.json": &attend.Judgment{Route: attend.RouteSkip},
		"verdict.json": &attend.Verdict{
			ID: anID, At: at(1767225600900), Reason: attend.ReasonClosing, Events: 4,
			Judgment: attend.Judgment{
				Route:         attend.RouteWait,
				Probabilities: map[attend.Route]float64{attend.RouteWait: 0.75, attend.RouteQueue: 0.25},
				Predicates:    map[string]float64{"urgent": 0.5},
				Confidence:    0.625,
			},
		},
		"decision.json": &attend.Decision{
			ID: anID, At: at(1767225601250),
			Window: attend.Window{
				Scope: "ops/db", Reason: attend.ReasonFlush,
				Events: []attend.Event{{
					ID: "e-1", At: at(1767225600000), Name: "message", Data: json.RawMessage(`{"from":"ada"}`),
					Text: "stop, please", Kind: attend.KindFlush,
				}},
				Opened: at(1767225600500), Settled: at(1767225600500), Waits: 1,
			},
			Judgment: attend.Judgment{
				Route:         attend.RouteInterrupt,
				Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.875, attend.RouteQueue: 0.125},
				Predicates:    map[string]float64{"urgent": 1},
				Confidence:    0.9,
			},
		},
		"dead_letter.json": &attend.DeadLetter{
			ID: anID, Stage: attend.StageSink, Message: "the agent's host is gone", Attempts: 4,
			Window: forcedWindow("ops/db"), Decision: &letterDecision,
		},
		"dead_letter_intake.json": &attend.DeadLetter{
			ID: "79bb9cc151e33f7ad1e4d5e696e9352157970039", Stage: attend.StageIntake,
			Message: "attend: kind: want one of the six kinds",
			Window: attend.Window{
				Scope:  "ops/db",
				Events: []attend.Event{{ID: "e-1", Name: "message", Source: "log:app"}},
			},
		},
		"mark.json": &attend.Mark{
			Step: attend.StepChanged, At: at(1767225601250), ID: anID, Reason: attend.ReasonPassive,
			From: attend.RouteInterrupt, Events: []attend.EventRef{{ID: "e-1"}, {Source: "log:app", ID: "e-1"}},
			Judgment: attend.Judgment{
				Route:         attend.RouteQueue,
				Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.25, attend.RouteQueue: 0.75},
				Confidence:    0.5,
			},
		},
		"mark_dropped.json": &attend.Mark{
			Step: attend.StepDropped, At: at(1767225601250), Why: attend.WhyStale,
			Events: []attend.EventRef{{Source: "log:app", ID: "e-7"}},
		},
		"mark_taken.json": &attend.Mark{
			Step: attend.StepTaken, At: at(1767225601250), ID: anID, Stage: attend.StageJudge, Attempts: 3,
		},
	}
}

// readWire returns a vector without its line breaks and indentation.
func readWire(t *testing.T, name string) []byte {
	t.Helper()
	text, err := fs.ReadFile(vectors.FS, "wire/"+name)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b.Bytes()
}

func TestWireVectors(t *testing.T) {
	values := wireValues()
	names, err := fs.Glob(vectors.FS, "wire/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(values)+1 {
		t.Errorf("vectors/wire holds %d files, want %d and cursor.json", len(names), len(values))
	}
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			golden := readWire(t, name)
			got, err := json.Marshal(value)
			if err != nil || !bytes.Equal(got, golden) {
				t.Errorf("Marshal = %v\n%s\nwant\n%s", err, got, golden)
			}
			byValue, err := json.Marshal(reflect.ValueOf(value).Elem().Interface())
			if err != nil || !bytes.Equal(byValue, golden) {
				t.Errorf("Marshal by value = %v\n%s\nwant\n%s", err, byValue, golden)
			}
			// What was in the variable before must not shine through.
			for _, into := range []any{reflect.New(reflect.TypeOf(value).Elem()).Interface(), dirty(t, value)} {
				if err := json.Unmarshal(golden, into); err != nil || !reflect.DeepEqual(into, value) {
					t.Errorf("Unmarshal = %v\n%+v\nwant\n%+v", err, into, value)
				}
			}
		})
	}
}

// dirty returns a variable of value's type that holds something else.
func dirty(t *testing.T, value any) any {
	j := attend.Judgment{
		Route:         attend.RouteNote,
		Probabilities: map[attend.Route]float64{attend.RouteNote: 0.3, "other": 1},
		Predicates:    map[string]float64{"other": 1},
		Confidence:    0.1,
	}
	w := forcedWindow("other")
	w.Dropped, w.Gap, w.Waits = 9, true, 9
	switch value.(type) {
	case *attend.Event:
		return &attend.Event{ID: "x", At: at(1), Name: "x", Data: json.RawMessage(`"x"`), Text: "x", Source: "x", Kind: "x"}
	case *attend.Window:
		return &w
	case *attend.Judgment:
		return &j
	case *attend.Verdict:
		return &attend.Verdict{ID: "x", At: at(1), Reason: "x", Events: 1, Judgment: j}
	case *attend.Decision:
		return &attend.Decision{ID: "x", At: at(1), Window: w, Judgment: j}
	case *attend.DeadLetter:
		return &attend.DeadLetter{ID: "x", Stage: "x", Message: "x", Attempts: 1, Window: w, Decision: &attend.Decision{Window: w}}
	case *attend.Mark:
		return &attend.Mark{Step: "x", At: at(1), ID: "x", Stage: "x", Reason: "x", From: "x", Why: "x", Attempts: 1, Events: []attend.EventRef{{ID: "x"}}, Judgment: j}
	}
	t.Fatalf("no dirty %T", value)
	return nil
}

func TestCursorVector(t *testing.T) {
	var text string
	if err := json.Unmarshal(readWire(t, "cursor.json"), &text); err != nil {
		t.Fatal(err)
	}
	want := attend.LogCursor{Epoch: "7f3a90c1", Position: 300}
	if got, err := attend.ParseLogCursor(text); err != nil || got != want {
		t.Errorf("ParseLogCursor(%q) = %v, %v, want %v", text, got, err, want)
	}
	if got := want.String(); got != text {
		t.Errorf("String() = %q, want %q", got, text)
	}
}

// A list in a wire form is a list, not null.
func TestWireOfNoEvents(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{attend.Window{}, `{"events":[]}`},
		{attend.Decision{}, `{"id":"","scope":"","at":0,"window":{"events":[]}}`},
		{attend.DeadLetter{}, `{"id":"","scope":"","stage":"","message":"","attempts":0,"window":{"events":[]}}`},
	} {
		got, err := json.Marshal(test.value)
		if err != nil || string(got) != test.want {
			t.Errorf("Marshal of %T = %s, %v, want %s", test.value, got, err, test.want)
		}
	}
}

// Encoders escape <, >, &, U+2028 and U+2029; data must come back as it was, or
// a notice made from the log would differ from the one made in process.
func TestWireKeepsData(t *testing.T) {
	for _, data := range []string{
		`{"html":"<a href='?x=1&y=2'>","q":"\"\\u003c"}`,
		"\"\u2028\u2029\"",
		`{"<k>":"\\\\u003e"}`,
		`null`,
		`0`,
		`""`,
		`[1e400,-0,0.10,1E+2]`,
		`{"a":1,"a":2}`,
	} {
		e := attend.Event{ID: "1", Name: "n", Data: json.RawMessage(data)}
		for _, html := range []bool{true, false} {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(html)
			if err := enc.Encode(attend.Decision{Window: attend.Window{Events: []attend.Event{e}}}); err != nil {
				t.Errorf("Encode(%s) = %v", data, err)
				continue
			}
			var d attend.Decision
			if err := json.Unmarshal(b.Bytes(), &d); err != nil || len(d.Window.Events) != 1 {
				t.Errorf("Unmarshal of %s = %+v, %v, want one event", data, d, err)
				continue
			}
			if got := string(d.Window.Events[0].Data); got != data {
				t.Errorf("Data, with HTML escaped %v, came back as %s, want %s", html, got, data)
			}
		}
	}
}

func TestWireRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		into any
	}{
		{"event with a time of a fraction", `{"id":"1","name":"n","at":1.5}`, new(attend.Event)},
		{"event with a time as text", `{"id":"1","name":"n","at":"2026-01-01"}`, new(attend.Event)},
		{"event with a number as id", `{"id":1,"name":"n"}`, new(attend.Event)},
		{"event that is a list", `[]`, new(attend.Event)},
		{"window with a broken event", `{"events":[1]}`, new(attend.Window)},
		{"judgment with a probability as text", `{"probabilities":{"ask":"1"}}`, new(attend.Judgment)},
		{"verdict with half an event", `{"events":0.5}`, new(attend.Verdict)},
		{"decision with a window that is a list", `{"window":[]}`, new(attend.Decision)},
		{"dead letter with attempts as text", `{"attempts":"1"}`, new(attend.DeadLetter)},
		{"mark with events that are ids", `{"events":["1"]}`, new(attend.Mark)},
	} {
		if err := json.Unmarshal([]byte(test.text), test.into); err == nil {
			t.Errorf("%s: Unmarshal = nil, want an error", test.name)
		}
	}
}

// A newer writer may add fields.
func TestWireIgnoresUnknownFields(t *testing.T) {
	for name, value := range wireValues() {
		golden := readWire(t, name)
		more := slices.Concat([]byte(`{"addedLater":{"x":[1]},`), golden[1:])
		into := reflect.New(reflect.TypeOf(value).Elem()).Interface()
		if err := json.Unmarshal(more, into); err != nil || !reflect.DeepEqual(into, value) {
			t.Errorf("%s: Unmarshal with a field more = %v\n%+v\nwant\n%+v", name, err, into, value)
		}
	}
}

func FuzzEventWire(f *testing.F) {
	for _, name := range []string{"event.json", "event_minimal.json"} {
		text, err := fs.ReadFile(vectors.FS, "wire/"+name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"id":"1","at":-62135596800000,"name":"n","data":null,"text":"\ud800\u0000"}`))
	f.Add([]byte(`{"ID":"\u2028","AT":9223372036854775807,"name":"<","data":{"\u003C":"\\u003c\u2029\udc00"} }`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e attend.Event
		if json.Unmarshal(text, &e) != nil {
			return
		}
		e, err := e.Clean()
		if err != nil {
			return
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v", e, err)
		}
		var back attend.Event
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("Unmarshal(%s) = %v", b, err)
		}
		if !sameEvent(back, e) {
			t.Errorf("came back as\n%+v\nwant\n%+v", back, e)
		}
		again, err := back.Clean()
		if err != nil || !sameEvent(again, e) {
			t.Errorf("Clean of what came back = %v\n%+v\nwant\n%+v", err, again, e)
		}
	})
}

// FuzzWire decodes a text as each form. What is decoded can be written, and what
// was written reads as the same and is written as the same.
func FuzzWire(f *testing.F) {
	names, err := fs.Glob(vectors.FS, "wire/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(vectors.FS, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"at":-62135596800000,"opened":9223372036854775807,"settled":-9223372036854775808,"events":[null],"window":null,"decision":{}}`))
	f.Add([]byte(`{"EVENTS":[{"data":"\ud800"}],"Route":"\udc00","probabilities":{"\ud800":-0,"":5e-324},"predicates":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, newForm := range []func() any{
			func() any { return new(attend.Event) },
			func() any { return new(attend.Window) },
			func() any { return new(attend.Judgment) },
			func() any { return new(attend.Verdict) },
			func() any { return new(attend.Decision) },
			func() any { return new(attend.DeadLetter) },
			func() any { return new(attend.Mark) },
		} {
			value := newForm()
			if json.Unmarshal(text, value) != nil {
				continue
			}
			b, err := json.Marshal(value)
			if err != nil {
				if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > attend.MaxDataDepth {
					continue // as deep as encoding/json goes: Clean lets no such event in
				}
				t.Fatalf("Marshal of %T = %v", value, err)
			}
			back := newForm()
			if err := json.Unmarshal(b, back); err != nil {
				t.Fatalf("Unmarshal of %T from %s = %v", value, b, err)
			}
			again, err := json.Marshal(back)
			if err != nil || !bytes.Equal(again, b) {
				t.Errorf("%T comes back as\n%s\nwant\n%s", value, again, b)
			}
		}
	})
}

func sameEvent(a, b attend.Event) bool {
	return a.ID == b.ID && a.At.Equal(b.At) && a.Name == b.Name && bytes.Equal(a.Data, b.Data) &&
		a.Text == b.Text && a.Source == b.Source && a.Kind == b.Kind
}
