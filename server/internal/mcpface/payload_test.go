package mcpface

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/decisions"
)

// item is a decision of events with these data.
func item(data ...string) decisions.Item {
	var events []attend.Event
	for i, text := range data {
		events = append(events, attend.Event{ID: fmt.Sprint("e", i), Name: "said", Data: json.RawMessage(text), Kind: attend.KindFlush})
	}
	at := time.UnixMilli(1_790_000_000_000)
	return decisions.Item{
		Cursor: attend.LogCursor{Epoch: "epoch", Position: 7},
		Decision: attend.Decision{
			ID: attend.NewDecisionID("ops", events), At: at, Judgment: attend.Judgment{Route: attend.RouteNote},
			Window: attend.Window{Scope: "ops", Events: events, Reason: attend.ReasonFlush, Opened: at, Settled: at},
		},
	}
}

func ids(d attend.Decision) (out []string) {
	for _, e := range d.Window.Events {
		out = append(out, e.ID)
	}
	return out
}

func quoted(n int) string { return `"` + strings.Repeat("x", n) + `"` }

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestM2ThePayloadIsBounded(t *testing.T) {
	small, big := `{"n":1}`, quoted(60<<10)
	for _, row := range []struct {
		name string
		it   decisions.Item
		want []string // the events that are left
	}{
		{"small", item(small, small), []string{"e0", "e1"}},
		{"no events", item(), nil},
		{"the oldest are cut", item(big, big, big, small), []string{"e1", "e2", "e3"}},
		{"one event", item(quoted(200 << 10)), nil},
		{"one event among others", item(small, quoted(200<<10), small), []string{"e2"}},
		{"the newest one", item(small, small, quoted(200<<10)), nil},
		{"one that nests too deep", item(small, nested(maxDepth+1), small), []string{"e2"}},
		{"one that nests deep", item(small, nested(maxDepth), small), []string{"e0", "e1", "e2"}},
		{"brackets in a string", item(quoted(9), `"\"`+strings.Repeat("[", 200)+`"`), []string{"e0", "e1"}},
		{"a number that is too large", item(small, `{"n":[1,-2e999]}`, small), []string{"e2"}},
		{"a number of many digits", item(`{"n":`+strings.Repeat("9", 400)+`}`, small), []string{"e1"}},
		{"large numbers", item(`[12345678901234567890,1e308,-0.5,1E-999]`, small), []string{"e0", "e1"}},
		{"too deep, and too large", item(small, nested(900), big, big, big), []string{"e3", "e4"}},
	} {
		text, err := payload(row.it)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		got, extra := decisionOf(t, text)
		all := len(row.it.Decision.Window.Events)
		if !slices.Equal(ids(got), row.want) || extra.EventsCut != all-len(row.want) {
			t.Errorf("%s: events %v are there and %d cut, want %v and %d", row.name, ids(got), extra.EventsCut, row.want, all-len(row.want))
		}
		if extra.EventsCut == 0 && strings.Contains(string(text), "eventsCut") {
			t.Errorf("%s: eventsCut is there", row.name)
		}
		if want := attend.DefaultNotice(row.it.Decision); extra.Notice != want {
			t.Errorf("%s: the notice is %q, want that of the whole decision: %q", row.name, extra.Notice, want)
		}
		if len(text) > MaxPayload || got.ID != row.it.Decision.ID || extra.Cursor != row.it.Cursor.String() {
			t.Errorf("%s: %d bytes, id %s, cursor %s", row.name, len(text), got.ID, extra.Cursor)
		}
	}
}

// As many events as go in are in.
func TestM2ThePayloadIsFilled(t *testing.T) {
	for extra := range 16 {
		it := item(quoted(60<<10), quoted(60<<10), quoted(4096+extra*250))
		whole, err := it.Payload(0)
		if err != nil {
			t.Fatal(err)
		}
		text, err := payload(it)
		if err != nil {
			t.Fatal(err)
		}
		if fits := len(whole) <= MaxPayload; fits != (len(text) == len(whole)) {
			t.Errorf("of %d bytes %d are sent", len(whole), len(text))
		}
	}
}

// What a producer sent crosses as it was.
func TestM4DataCrossesAsItWas(t *testing.T) {
	data := `{"n":12345678901234567890,"f":1.0,"s":"<&>\u0001é"}`
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	start := *c.poll("{}", "null", "").Cursor
	it := item(data, nested(200), data)
	w.row(it.Decision)
	p := c.poll("{}", start, "")
	if len(p.Events) != 1 {
		t.Fatalf("%d events, want the decision, although a part of it does not cross", len(p.Events))
	}
	got, extra := decisionOf(t, p.Events[0].Data)
	if len(got.Window.Events) != 1 || string(got.Window.Events[0].Data) != data || extra.EventsCut != 2 {
		t.Errorf("the payload is %s", p.Events[0].Data)
	}
	var out struct {
		StructuredContent struct{ Decisions []json.RawMessage }
	}
	c.call("tools/call", fmt.Sprintf(`{"name":"attend_wait","arguments":{"cursor":%q}}`, start)).into(t, &out)
	if len(out.StructuredContent.Decisions) != 1 {
		t.Fatalf("attend_wait answers %+v", out)
	}
	if got, _ := decisionOf(t, out.StructuredContent.Decisions[0]); string(got.Window.Events[0].Data) != data {
		t.Errorf("attend_wait answers %s", out.StructuredContent.Decisions[0])
	}
}

// What goes into the payload is never too much work for its schema.
func TestM2ManySmallEventsCross(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	start := *c.poll("{}", "null", "").Cursor
	var events []attend.Event
	for i := range 6000 {
		events = append(events, attend.Event{ID: fmt.Sprint(i), Name: "x"})
	}
	w.append("ops", attend.RouteNote, events)
	numbers := `[` + strings.TrimSuffix(strings.Repeat("1,", 60_000), ",") + `]`
	w.row(item(numbers).Decision)
	var texts []string
	for _, v := range c.poll("{}", start, "").Events {
		got, extra := decisionOf(t, v.Data)
		texts = append(texts, fmt.Sprint(len(got.Window.Events) > 1000, len(got.Window.Events)+extra.EventsCut))
	}
	if want := []string{"true 6000", "false 1"}; !slices.Equal(texts, want) {
		t.Errorf("events/poll = %v, want %v", texts, want)
	}
}
