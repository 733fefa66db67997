package mcpface

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
	"github.com/attend-go/attend/core/memory"
)

type windowed struct {
	Scope string
	Open  struct {
		Events    []attend.Event
		EventsCut int
		Opened    int64
	}
	Held, Judging json.RawMessage
}

func TestM3WindowShowsWhatIsPilingUp(t *testing.T) {
	w := newWorld(t, nil)
	for _, e := range []attend.Event{
		{ID: "a", Name: "said", Text: "one\nline"}, {ID: "b", Name: "built", Data: json.RawMessage(`{"n":12345678901234567890}`)},
	} {
		if _, err := w.engine.Push(t.Context(), "ops/db", e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.engine.Push(t.Context(), "dev", attend.Event{ID: "c", Name: "secret"}); err != nil {
		t.Fatal(err)
	}
	s := w.session("", "ann", modern).MCP()
	before, err := w.store.Load(t.Context(), "ops/db")
	if err != nil {
		t.Fatal(err)
	}
	var got windowed
	text, failed := tool(t, s, WindowTool, `{"scope":"ops/db"}`, &got)
	if failed || got.Scope != "ops/db" || len(got.Open.Events) != 2 || got.Open.Opened == 0 || got.Held != nil || got.Judging != nil || got.Open.EventsCut != 0 {
		t.Fatalf("attend_window = %+v, %q", got, text)
	}
	for _, want := range []string{"ops/db: 2 events piling up since ", "one\\nline\n", `built {"n":12345678901234567890}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the text is %q, want %q in it", text, want)
		}
	}
	if after, err := w.store.Load(t.Context(), "ops/db"); err != nil || after.Version != before.Version {
		t.Errorf("a look changed the scope: version %d, %v, want %d", after.Version, err, before.Version)
	}
	// A foreign scope is one where nothing happened, and so is one of the server's own.
	for _, scope := range []string{"dev", "nowhere", "$attend/webhooks"} {
		var got windowed
		text, failed := tool(t, s, WindowTool, `{"scope":"`+scope+`"}`, &got)
		if failed || got.Scope != scope || got.Open.Events == nil || len(got.Open.Events) != 0 || text != scope+": 0 events piling up." {
			t.Errorf("attend_window of %s = %+v, %q", scope, got, text)
		}
	}
	for _, bad := range []string{`{}`, `{"scope":""}`, `{"scope":"a\nb"}`, `{"scope":7}`, `{"scope":"ops","limit":2}`} {
		if text, failed := tool(t, s, WindowTool, bad, nil); !failed || text == "" {
			t.Errorf("attend_window(%s) = %q, want an error", bad, text)
		}
	}
}

// A window that is too much loses its oldest events, and that is counted.
func TestM3AWindowIsBounded(t *testing.T) {
	w := attend.Window{Scope: "ops", Opened: time.UnixMilli(5)}
	for range 4 {
		w.Events = append(w.Events, attend.Event{ID: "x", Name: "said", Text: strings.Repeat("x", 50<<10)})
	}
	left := MaxPayload
	text, err := windowOf(w, time.UnixMilli(7), &left)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Events           []attend.Event
		EventsCut, Until int
	}
	if err := json.Unmarshal(text, &got); err != nil || len(got.Events) != 2 || got.EventsCut != 2 || got.Until != 7 || len(text) > MaxPayload {
		t.Errorf("windowOf = %d events, %d cut, until %d, %d bytes, %v", len(got.Events), got.EventsCut, got.Until, len(text), err)
	}
	if len(w.Events) != 4 {
		t.Error("the window was changed")
	}
	w.Events = []attend.Event{{ID: "deep", Name: "said", Data: json.RawMessage(nested(300))}, {ID: "y", Name: "said"}}
	left = MaxPayload
	if text, err = windowOf(w, time.Time{}, &left); err != nil || !strings.Contains(string(text), `"eventsCut":1`) || strings.Contains(string(text), "deep") {
		t.Errorf("windowOf = %s, %v", text, err)
	}
}

// What was put off and what is being judged is shown beside what is open.
func TestM3WindowShowsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		judge := &attendtest.Judge{Script: []attendtest.Answer{{Route: attend.RouteWait}, attendtest.Hang()}}
		e, err := engine.New(engine.Config{
			Store: store, Kind: func(e attend.Event) attend.Kind { return attend.Kind(e.Name) }, Judge: judge,
			Sink: new(attendtest.Sink), DeadLetter: new(attendtest.Letters), Logger: quiet(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		defer func() { cancel(); <-done }()
		w := newWorld(t, func(c *Config) { c.Engine = e })
		session := w.session("", "root", modern)
		defer session.Close()
		push := func(id string, kind attend.Kind) {
			t.Helper()
			if _, err := e.Push(t.Context(), "ops", attend.Event{ID: id, Name: string(kind), Text: id}); err != nil {
				t.Fatal(err)
			}
		}
		type part struct {
			Events []attend.Event
			Until  int64
		}
		look := func() (got struct{ Open, Held, Judging *part }, text string) {
			t.Helper()
			text, failed := tool(t, session.MCP(), WindowTool, `{"scope":"ops"}`, &got)
			if failed {
				t.Fatal(text)
			}
			return got, text
		}
		push("first", attend.KindClosing)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		push("second", attend.KindPassive)
		got, text := look()
		if got.Held == nil || len(got.Held.Events) != 1 || got.Held.Until == 0 || len(got.Open.Events) != 1 || got.Judging != nil {
			t.Errorf("attend_window = %+v", got)
		}
		if !strings.Contains(text, "1 event put off since 2000-01-01 00:00:00Z, to be judged again at 20") || !strings.Contains(text, ".\nfirst") || !strings.Contains(text, "second\n") {
			t.Errorf("the text is %q", text)
		}
		push("third", attend.KindFlush)
		synctest.Wait()
		push("fourth", attend.KindPassive)
		got, text = look()
		if got.Judging == nil || len(got.Judging.Events) != 3 || got.Held != nil || len(got.Open.Events) != 1 {
			t.Errorf("attend_window = %+v", got)
		}
		if !strings.Contains(text, "3 events being judged") {
			t.Errorf("the text is %q", text)
		}
	})
}
