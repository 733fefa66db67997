package mcpface

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/server/access"
)

// poll is the result of events/poll.
type poll struct {
	ResultType string
	Events     []struct {
		EventID, Name, Timestamp string
		Data                     json.RawMessage
	}
	Cursor             *string
	Truncated, HasMore *bool
	NextPollMs         *int
}

func (c raw) poll(arguments, cursor, more string) (p poll) {
	c.t.Helper()
	if cursor != "null" {
		b, _ := json.Marshal(cursor)
		cursor = string(b)
	}
	c.call("events/poll", fmt.Sprintf(`{"name":%q,"arguments":%s,"cursor":%s%s}`, EventName, arguments, cursor, more)).into(c.t, &p)
	if p.ResultType != "complete" || p.Cursor == nil || *p.Cursor == "" || p.Truncated == nil || p.HasMore == nil || p.NextPollMs == nil {
		c.t.Fatalf("a poll's result lacks something: %+v", p)
	}
	return p
}

// texts are what the events of a poll's decisions say.
func (p poll) texts(t testing.TB) (out []string) {
	t.Helper()
	for _, v := range p.Events {
		d, _ := decisionOf(t, v.Data)
		for _, e := range d.Window.Events {
			out = append(out, e.Text)
		}
	}
	return out
}

func TestM1TheListNamesTheEvent(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Named = named })
	var list struct {
		ResultType string
		Events     []struct {
			Name, Description          string
			Delivery                   []string
			InputSchema, PayloadSchema json.RawMessage
		}
	}
	c := raw{t, w.serve(), "ann"}
	c.call("events/list", "{}").into(t, &list)
	if len(list.Events) != 1 || list.ResultType != "complete" {
		t.Fatalf("events/list = %+v", list)
	}
	v := list.Events[0]
	if v.Name != "attention.decision" || v.Description == "" || !slices.Equal(v.Delivery, []string{"push", "poll"}) {
		t.Errorf("the event is %+v", v)
	}
	for name, s := range map[string]json.RawMessage{"scope": v.InputSchema, "routes": v.InputSchema, "notice": v.PayloadSchema, "eventsCut": v.PayloadSchema} {
		var schema struct{ Properties map[string]json.RawMessage }
		if err := json.Unmarshal(s, &schema); err != nil || schema.Properties[name] == nil {
			t.Errorf("no schema has %s: %v", name, err)
		}
	}
	var discover struct {
		Instructions string
		Capabilities struct{ Extensions map[string]map[string]any }
	}
	c.call("server/discover", "{}").into(t, &discover)
	if discover.Capabilities.Extensions[mcpevents.Extension] == nil || !strings.Contains(discover.Instructions, WaitTool) {
		t.Errorf("server/discover = %+v", discover)
	}
}

func TestM1AStoreBringsWebhooks(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Store, c.Named = memory.New(), named })
	types := w.session("", "ann", modern)
	for d, err := range types.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(d.Delivery, []mcpevents.Mode{mcpevents.Push, mcpevents.Poll, mcpevents.Webhook}) {
			t.Errorf("delivery = %v", d.Delivery)
		}
	}
}

func TestM1PollReadsByCursor(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	w.decide("ops/db", attend.RouteNote, "before")
	first := c.poll("{}", "null", "")
	if len(first.Events) != 0 || *first.Truncated || *first.HasMore {
		t.Errorf("a poll from now on = %+v", first)
	}
	d := w.decide("ops/db", attend.RouteInterrupt, "one", "two")
	w.decide("ops", attend.RouteQueue, "three")
	p := c.poll("{}", *first.Cursor, "")
	if got, want := p.texts(t), []string{"one", "two", "three"}; !slices.Equal(got, want) || *p.HasMore || *p.Truncated {
		t.Fatalf("events/poll = %v, %+v", got, p)
	}
	v := p.Events[0]
	got, extra := decisionOf(t, v.Data)
	if got.ID != d.ID || got.Scope() != "ops/db" || got.Route != attend.RouteInterrupt || !got.At.Equal(d.At) || extra.Notice != attend.DefaultNotice(d) || extra.EventsCut != 0 {
		t.Errorf("the payload is %s", v.Data)
	}
	if v.Name != EventName || v.EventID != fmt.Sprintf("%s:%d", d.ID, d.At.UnixMilli()) || !strings.HasSuffix(v.Timestamp, "Z") {
		t.Errorf("the occurrence is %+v", v)
	}
	// A cut batch goes on where it stopped, and says whether there is more.
	p = c.poll("{}", *first.Cursor, `,"maxEvents":1`)
	if got := p.texts(t); !slices.Equal(got, []string{"one", "two"}) || !*p.HasMore {
		t.Errorf("events/poll = %v, %+v", got, p)
	}
	p = c.poll("{}", *p.Cursor, `,"maxEvents":1`)
	if got := p.texts(t); !slices.Equal(got, []string{"three"}) || *p.HasMore {
		t.Errorf("events/poll = %v, %+v", got, p)
	}
	if p = c.poll("{}", *p.Cursor, ""); len(p.Events) != 0 || *p.HasMore {
		t.Errorf("events/poll at the end = %+v", p)
	}
}

func TestM1ArgumentsNarrow(t *testing.T) {
	w := newWorld(t, nil)
	root, ann := raw{t, w.serve(), "root"}, raw{}
	ann = root
	ann.who = "ann"
	start := *root.poll("{}", "null", "").Cursor
	w.decide("ops/db", attend.RouteNote, "db")
	w.decide("opsx", attend.RouteNote, "x")
	w.decide("dev", attend.RouteAsk, "dev")
	w.decide("ops", attend.RouteInterrupt, "ops")
	for _, row := range []struct {
		c         raw
		arguments string
		want      []string
	}{
		{root, `{}`, []string{"db", "x", "dev", "ops"}},
		{root, `{"scope":""}`, []string{"db", "x", "dev", "ops"}},
		{root, `{"scope":"ops"}`, []string{"db", "ops"}},
		{root, `{"scope":"ops/"}`, []string{"db"}},
		{root, `{"routes":["note","ask"]}`, []string{"db", "x", "dev"}},
		{root, `{"scope":"ops","routes":["interrupt"]}`, []string{"ops"}},
		{ann, `{}`, []string{"db", "ops"}},
		{ann, `{"scope":"ops/db"}`, []string{"db"}},
	} {
		p := row.c.poll(row.arguments, start, "")
		if got := p.texts(t); !slices.Equal(got, row.want) || *p.HasMore {
			t.Errorf("%s polls %s: %v (more: %v), want %v", row.c.who, row.arguments, got, *p.HasMore, row.want)
		}
	}
	for _, bad := range []string{`{"scope":5}`, `{"scoep":"ops"}`, `{"routes":["skip"]}`, `{"routes":[]}`, `{"scope":"a\nb"}`, `{"scope":"\u0000"}`, `{"scope":"` + strings.Repeat("ö", 300) + `"}`} {
		a := root.call("events/poll", fmt.Sprintf(`{"name":%q,"arguments":%s}`, EventName, bad))
		if a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("arguments %s: %+v, want InvalidParams", bad, a)
		}
	}
}

// A foreign scope answers as one that does not exist, whatever the cursor; who may
// read nothing at all is told so.
func TestM1AForeignScopeDoesNotExist(t *testing.T) {
	w := newWorld(t, nil)
	url := w.serve()
	ann := raw{t, url, "ann"}
	start := *ann.poll("{}", "null", "").Cursor
	w.decide("dev", attend.RouteNote, "dev")
	for _, cursor := range []string{start, "null", "bad!", attend.LogCursor{Epoch: "other", Position: 3}.String()} {
		foreign, nowhere := ann.poll(`{"scope":"dev"}`, cursor, ""), ann.poll(`{"scope":"nowhere"}`, cursor, "")
		if len(foreign.Events) != 0 || *foreign.Truncated != *nowhere.Truncated || *foreign.Cursor != *nowhere.Cursor || *foreign.HasMore {
			t.Errorf("cursor %q: a foreign scope answers %+v, one that does not exist %+v", cursor, foreign, nowhere)
		}
	}
	for _, scope := range []string{"$attend", "$attend/", "$attend/webhooks"} {
		root := raw{t, url, "root"}
		if p := root.poll(fmt.Sprintf(`{"scope":%q}`, scope), start, ""); len(p.Events) != 0 {
			t.Errorf("%s answers %+v", scope, p)
		}
	}
	for _, who := range []string{"deaf", "nobody"} {
		for _, method := range []string{"events/poll", "events/stream"} {
			a := raw{t, url, who}.call(method, fmt.Sprintf(`{"name":%q}`, EventName))
			if a.Error == nil || a.Error.Code != -32024 {
				t.Errorf("%s by %s: %+v, want Forbidden", method, who, a)
			}
		}
	}
}

// M6, for polls: every cursor that cannot be read from is told, and goes on from the
// oldest decision kept.
func TestM6PollTellsTruncated(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	start := *c.poll("{}", "null", "").Cursor
	for i := range 5 {
		w.decide("ops", attend.RouteNote, fmt.Sprint("n", i))
	}
	w.trim(2)
	now, err := attend.ParseLogCursor(*c.poll("{}", "null", "").Cursor)
	if err != nil {
		t.Fatal(err)
	}
	ahead := attend.LogCursor{Epoch: now.Epoch, Position: now.Position + 7}
	for name, cursor := range map[string]string{
		"behind retention": start, "another epoch": attend.LogCursor{Epoch: "other", Position: now.Position}.String(),
		"ahead": ahead.String(), "unreadable": "not a cursor", "empty": "", "long": strings.Repeat("x", 10_000),
	} {
		p := c.poll("{}", cursor, "")
		if got := p.texts(t); !*p.Truncated || !slices.Equal(got, []string{"n3", "n4"}) {
			t.Errorf("%s: %v, truncated %v, want the two that are kept and truncated", name, got, *p.Truncated)
		}
		if q := c.poll("{}", *p.Cursor, ""); *q.Truncated || len(q.Events) != 0 {
			t.Errorf("%s: the next poll = %+v", name, q)
		}
	}
	// The age that a client bounds a replay by is told as well.
	if p := c.poll("{}", ahead.String(), `,"maxAgeMs":0`); !*p.Truncated || len(p.Events) != 0 {
		t.Errorf("a poll of nothing old = %+v", p)
	}
}

// Who goes on from where a truncated page begins misses nothing of it, and is told
// no more.
func TestM6ATruncatedPageHasABeginning(t *testing.T) {
	w := newWorld(t, nil)
	b, ctx := backend{w.face}, access.With(t.Context(), named("ann"))
	sub := mcpevents.Subscription{Principal: "ann", Name: EventName, Arguments: json.RawMessage("{}")}
	for i := range 4 {
		w.decide("ops", attend.RouteNote, fmt.Sprint("n", i))
	}
	w.decide("dev", attend.RouteNote, "foreign")
	w.trim(3)
	for _, row := range []struct {
		cursor    mcpevents.Cursor
		notBefore time.Time
		events    int
	}{{"unreadable", time.Time{}, 2}, {"unreadable", w.at.Add(-time.Second), 1}, {"unreadable", w.at.Add(time.Hour), 0}} {
		q := mcpevents.Query{After: row.cursor, NotBefore: row.notBefore, Limit: 10}
		p, err := b.Read(ctx, sub, q)
		if err != nil || !p.Truncated || len(p.Events) != row.events || p.Start == "" || p.Cursor == "" || p.More {
			t.Errorf("Read(%+v) = %+v, %v", q, p, err)
			continue
		}
		again, err := b.Read(ctx, sub, mcpevents.Query{After: p.Start, NotBefore: row.notBefore, Limit: 10})
		if err != nil || again.Truncated || len(again.Events) != row.events || again.Cursor != p.Cursor {
			t.Errorf("Read behind the beginning = %+v, %v, want the same without truncated", again, err)
		}
	}
}

// A few among many are found in a few polls, and the cursor moves on.
func TestM1FewAmongMany(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "bob"}
	start := *c.poll("{}", "null", "").Cursor
	var rows []attend.Row
	for i := range 5000 {
		scope := attend.Scope("noise")
		if i == 4321 {
			scope = "dev"
		}
		d := attend.Decision{ID: attend.DecisionID(fmt.Sprint("d", i)), At: w.at, Window: attend.Window{Scope: scope}, Judgment: attend.Judgment{Route: attend.RouteNote}}
		body, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, attend.Row{Scope: scope, ID: d.ID, Type: attend.RowDecision, At: d.At, Body: body})
	}
	w.rows(rows...)
	p := c.poll("{}", start, `,"maxEvents":1`)
	if len(p.Events) != 1 || *p.HasMore {
		t.Fatalf("events/poll = %d events, more %v, want the one, and no more", len(p.Events), *p.HasMore)
	}
	if d, _ := decisionOf(t, p.Events[0].Data); d.ID != "d4321" {
		t.Errorf("it is %s", d.ID)
	}
	if p = c.poll("{}", *p.Cursor, ""); len(p.Events) != 0 || *p.Truncated {
		t.Errorf("the next poll = %+v", p)
	}
}

// A decision that can't be read is passed over, and that is told.
func TestM6AnUnreadableRowIsTold(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	start := *c.poll("{}", "null", "").Cursor
	w.decide("ops", attend.RouteNote, "one")
	w.rows(attend.Row{Scope: "ops", ID: "bad", Type: attend.RowDecision, At: w.at, Body: []byte(`{"id":`)})
	w.decide("ops", attend.RouteNote, "two")
	if p := c.poll("{}", start, ""); !*p.Truncated || !slices.Equal(p.texts(t), []string{"one", "two"}) {
		t.Errorf("events/poll = %v, truncated %v", p.texts(t), *p.Truncated)
	}
}

func TestM1StreamReadsByCursorAndResumes(t *testing.T) {
	w := newWorld(t, nil)
	c := raw{t, w.serve(), "ann"}
	ctx, cancel := context.WithCancel(t.Context())
	next := c.stream(ctx, `{"name":"attention.decision"}`)
	active := next()
	if active.Method != "notifications/events/active" || active.Params.Truncated || active.Params.Cursor == "" {
		t.Fatalf("the first frame is %+v", active)
	}
	w.decide("dev", attend.RouteNote, "foreign")
	d := w.decide("ops", attend.RouteNote, "one")
	v := next()
	got, _ := decisionOf(t, v.Params.Data)
	if got.ID != d.ID || v.Params.Cursor == "" || v.Params.Name != EventName {
		t.Fatalf("the event is %+v", v)
	}
	if n := w.face.c.Feed.Subscribers()["mcp"]; n != 1 {
		t.Errorf("%d subscribers are counted, want 1", n)
	}
	cancel()
	w.decide("ops", attend.RouteNote, "two")
	next = c.stream(t.Context(), fmt.Sprintf(`{"name":"attention.decision","cursor":%q}`, v.Params.Cursor))
	if active := next(); active.Params.Truncated || active.Params.Cursor != v.Params.Cursor {
		t.Errorf("the first frame after a reconnect is %+v", active)
	}
	if got, _ := decisionOf(t, next().Params.Data); got.Window.Events[0].Text != "two" {
		t.Errorf("after a reconnect comes %+v", got)
	}
	until(t, "the first stream is not counted any more", func() bool { return w.face.c.Feed.Subscribers()["mcp"] == 1 })
	// Behind retention.
	w.decide("ops", attend.RouteNote, "three")
	w.decide("ops", attend.RouteNote, "four")
	w.trim(1)
	next = c.stream(t.Context(), fmt.Sprintf(`{"name":"attention.decision","cursor":%q}`, v.Params.Cursor))
	if active := next(); !active.Params.Truncated {
		t.Errorf("behind retention the first frame is %+v", active)
	}
	if got, _ := decisionOf(t, next().Params.Data); got.Window.Events[0].Text != "four" {
		t.Errorf("behind retention comes %+v", got)
	}
}

// mcpevents' own client follows, over both transports.
func TestM1TheClientFollows(t *testing.T) {
	for _, over := range []string{"memory", "http"} {
		t.Run(over, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Events.NextPoll = time.Millisecond })
			url := ""
			if over == "http" {
				url = w.serve()
			}
			for _, mode := range []mcpevents.Mode{mcpevents.Push, mcpevents.Poll} {
				s := w.session(url, "ann", modern)
				started := false
				var heard []string
				for b, err := range s.Follow(t.Context(), subscription(`{"routes":["note"]}`), mcpevents.FollowConfig{Mode: mode, PollFloor: time.Millisecond}) {
					if err != nil {
						t.Fatal(err)
					}
					if !started {
						started = true
						w.decide("ops", attend.RouteQueue, "queued")
						w.decide("ops", attend.RouteNote, "one")
						w.decide("ops", attend.RouteNote, "two")
					}
					for _, v := range b.Events {
						if v.Mismatch {
							t.Errorf("the payload does not conform to its schema: %s", v.Data)
						}
						d, _ := decisionOf(t, v.Data)
						heard = append(heard, d.Window.Events[0].Text)
					}
					if len(heard) >= 2 {
						break
					}
				}
				if !slices.Equal(heard, []string{"one", "two"}) {
					t.Errorf("%s: heard %v", mode, heard)
				}
			}
		})
	}
}

// At an older revision there are the tools and the event; over HTTP by poll.
func TestM1OlderRevisions(t *testing.T) {
	for _, over := range []string{"memory", "http"} {
		for _, compat := range []bool{false, true} {
			w := newWorld(t, func(c *Config) { c.Events.Compat = compat; c.Events.NextPoll = time.Millisecond })
			url := ""
			if over == "http" {
				url = w.serve()
			}
			s := w.session(url, "ann", older)
			if v := s.MCP().InitializeResult().ProtocolVersion; v != older {
				t.Fatalf("the session speaks %s", v)
			}
			start, err := s.Poll(t.Context(), subscription("{}"), mcpevents.PollQuery{})
			if err != nil {
				t.Fatalf("%s, compat %v: Poll: %v", over, compat, err)
			}
			w.decide("ops", attend.RouteNote, "one")
			for b, err := range s.Follow(t.Context(), subscription("{}"), mcpevents.FollowConfig{Cursor: start.Cursor}) {
				if err != nil {
					t.Fatalf("%s: Follow: %v", over, err)
				}
				if len(b.Events) == 1 {
					break
				}
			}
		}
	}
}
