package decisions_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/decisions"
)

func item(events int, size int) decisions.Item {
	w := attend.Window{Scope: "ops/<db>", Reason: attend.ReasonClosing, Opened: noon, Settled: noon}
	for i := range events {
		w.Events = append(w.Events, attend.Event{ID: fmt.Sprint("e", i), Name: "log", Text: strings.Repeat("x", size), Kind: attend.KindClosing})
	}
	d := attend.Decision{ID: attend.NewDecisionID(w.Scope, w.Events), At: noon, Window: w, Judgment: attend.Judgment{Route: attend.RouteNote}}
	return decisions.Item{Cursor: attend.LogCursor{Epoch: "epoch", Position: 7}, Decision: d}
}

func TestPayload(t *testing.T) {
	i := item(1, 3)
	got, err := i.Payload(0)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"` + string(i.Decision.ID) + `","scope":"ops/<db>","at":1767268800000,"window":{"reason":"closing","events":[{"id":"e0","name":"log","text":"xxx","kind":"closing"}],` +
		`"opened":1767268800000,"settled":1767268800000},"route":"note","notice":"xxx\nFor your information: keep it in mind, and do not answer it.","cursor":"` + i.Cursor.String() + `"}`
	if string(got) != want {
		t.Errorf("Payload = %s\nwant %s", got, want)
	}
	if got, err := i.MarshalJSON(); err != nil || string(got) != want {
		t.Errorf("MarshalJSON = %s, %v\nwant %s", got, err, want)
	}
}

// M2: the oldest events are cut and counted, and the notice says what it would
// have said.
func TestM2PayloadIsCut(t *testing.T) {
	i := item(40, 9000)
	whole, err := i.Payload(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{len(whole), len(whole) - 1, 128 << 10, 40_000, 1} {
		b, err := i.Payload(limit)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ID        attend.DecisionID
			Window    attend.Window
			EventsCut int
			Notice    string
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		n := len(got.Window.Events)
		if n+got.EventsCut != 40 || got.Notice != attend.DefaultNotice(i.Decision) || got.ID != i.Decision.ID {
			t.Errorf("limit %d: %d events, %d cut, %d bytes of notice", limit, n, got.EventsCut, len(got.Notice))
		}
		if limit > 30_000 && len(b) > limit {
			t.Errorf("limit %d: the payload has %d bytes", limit, len(b))
		}
		if n < 40 && limit > 30_000 && len(b)+9200 < limit {
			t.Errorf("limit %d: cut to %d bytes, one event more would fit", limit, len(b))
		}
		if n > 0 && got.Window.Events[n-1].ID != "e39" {
			t.Errorf("limit %d: the newest event is %s, want e39", limit, got.Window.Events[n-1].ID)
		}
		if limit == 1 && n != 0 {
			t.Errorf("limit 1: %d events are left", n)
		}
	}
	if len(i.Decision.Window.Events) != 40 {
		t.Error("the item itself was cut")
	}
}
