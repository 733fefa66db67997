package demo

import (
	"encoding/json"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
)

// show hands a step to the printer. There is room for all of the story's.
func (t *teller) show(step, what, text, notice string) {
	t.steps <- Step{Since: time.Since(t.begun), Step: step, What: what, Text: text, Notice: notice}
}

func (t *teller) event(e attend.Event) {
	var a activity
	if err := json.Unmarshal(e.Data, &a); err != nil {
		a.Text = "data that is none of the story's"
	}
	t.mu.Lock()
	t.result.Events++
	t.mu.Unlock()
	t.show("event", a.What, a.Text, "")
}

// observe shows what the engine does.
func (t *teller) observe(trace attend.Trace) {
	switch x := trace.(type) {
	case attend.Settled:
		text := count(x.Events)
		if held := t.hold(0); held > 0 {
			text += fmt.Sprintf(": the %d that were held, merged with %s", held, newOnes(x.Events-held))
		}
		t.show("settle", string(x.Reason), text, "")
	case attend.Judged:
		if x.Verdict.Route == attend.RouteWait {
			t.hold(x.Verdict.Events)
		}
		t.show("judge", string(x.Verdict.Route), why(x.Verdict.Route, x.Verdict.Events, t.settle.WaitHorizon), "")
	}
}

// hold notes how many events are held from now on, and returns how many were.
func (t *teller) hold(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.held
	t.held = n
	return was
}

// deliver is the sink: what an app's own agent would be told.
func (t *teller) deliver(d attend.Decision, decided chan<- struct{}) error {
	t.mu.Lock()
	t.result.Deliveries++
	t.mu.Unlock()
	t.show("deliver", string(d.Route), "with "+count(len(d.Window.Events)), attend.DefaultNotice(d))
	decided <- struct{}{}
	return nil
}

func count(n int) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

func newOnes(n int) string {
	if n == 1 {
		return "the new one"
	}
	return fmt.Sprintf("%d new ones", n)
}
