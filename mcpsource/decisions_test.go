package mcpsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// A desk is a world whose server tells decisions, as an attend server does.
type desk struct {
	*world
	n int
}

func newDesk(t testing.TB, c mcpevents.ServerConfig, l mcpevents.LogConfig) *desk {
	t.Helper()
	l.Match = func(sub mcpevents.Subscription, v mcpevents.Event) bool {
		var a struct {
			Scope  attend.Prefix
			Routes []attend.Route
		}
		var d attend.Decision
		if json.Unmarshal(sub.Arguments, &a) != nil || json.Unmarshal(v.Data, &d) != nil {
			return true // what can't be read goes to everybody
		}
		return a.Scope.Covers(d.Scope()) && (len(a.Routes) == 0 || slices.Contains(a.Routes, d.Route))
	}
	log := mcpevents.NewLog(l)
	typ := mcpevents.Type{Name: "attention.decision", Backend: log}
	if c.Types != nil {
		typ.Modes, typ.Check = c.Types[0].Modes, c.Types[0].Check
	}
	c.Types = []mcpevents.Type{typ}
	return &desk{world: newWorld(t, c, log)}
}

// decide tells decisions about a scope, which are numbered.
func (d *desk) decide(scope attend.Scope, routes ...attend.Route) {
	d.t.Helper()
	for _, route := range routes {
		d.n++
		v := attend.Decision{
			ID: attend.DecisionID(fmt.Sprint("d", d.n)), At: time.UnixMilli(int64(d.n)), Judgment: attend.Judgment{Route: route},
			Window: attend.Window{Scope: scope, Events: []attend.Event{{ID: "e", Name: "said"}}},
		}
		body, err := json.Marshal(v)
		if err != nil {
			d.t.Fatal(err)
		}
		more := fmt.Sprintf(`,"notice":"notice %d","eventsCut":%d,"cursor":"x"}`, d.n, d.n%2)
		d.tell(string(v.ID), string(body[:len(body)-1])+more)
	}
}

func (d *desk) tell(id, data string) {
	d.t.Helper()
	if err := d.log.Append(mcpevents.Event{ID: id, Data: json.RawMessage(data)}); err != nil {
		d.t.Fatal(err)
	}
}

// steps collects what comes until n decisions are there. What is there to be done
// once it has begun is done by begin.
func steps(t testing.TB, seq func(yield func(mcpsource.Decided, error) bool), n int, begin func()) (ids []string, all []mcpsource.Decided) {
	t.Helper()
	for d, err := range seq {
		if err != nil {
			t.Fatalf("after %v: %v", ids, err)
		}
		if begin != nil {
			begin()
			begin = nil
		}
		all = append(all, d)
		if d.Decision != nil {
			ids = append(ids, string(d.Decision.ID))
		}
		if len(ids) >= n {
			break
		}
	}
	return ids, all
}

func TestM5DecisionsBeginNowAndKeepTheCursor(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Push, mcpevents.Poll} {
		d := newDesk(t, mcpevents.ServerConfig{NextPoll: time.Millisecond}, mcpevents.LogConfig{})
		d.decide("ops", attend.RouteNote)
		s := d.session(mcpevents.SessionConfig{})
		c := mcpsource.DecisionsConfig{Mode: mode}
		ids, all := steps(t, c.Decisions(t.Context(), s, ""), 2, func() { d.decide("ops", attend.RouteInterrupt, attend.RouteAsk, attend.RouteNote) })
		if !slices.Equal(ids, []string{"d2", "d3"}) || all[0].Decision != nil || all[0].Cursor == "" || all[0].Truncated {
			t.Fatalf("%s: %v, %+v, want two decisions behind a cursor", mode, ids, all)
		}
		last := all[len(all)-1]
		if last.Notice != "notice 3" || last.EventsCut != 1 || last.Decision.Route != attend.RouteAsk || last.Decision.Scope() != "ops" || len(last.Decision.Window.Events) != 1 {
			t.Errorf("%s: the decision is %+v, %+v", mode, last, last.Decision)
		}
		// From the cursor that is kept nothing is missed. What came with it in one
		// poll comes again, or not, as its cursor says.
		ids, _ = steps(t, mcpsource.Decisions(t.Context(), s, last.Cursor), 1, nil)
		if mode == mcpevents.Push && ids[0] != "d4" || ids[0] != "d4" && ids[0] != "d2" {
			t.Errorf("%s: from the cursor comes %v", mode, ids)
		}
	}
}

func TestM5DecisionsAreNarrowed(t *testing.T) {
	d := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{})
	s := d.session(mcpevents.SessionConfig{})
	c := mcpsource.DecisionsConfig{Scope: "ops/", Routes: []attend.Route{attend.RouteNote, attend.RouteAsk}}
	ids, all := steps(t, c.Decisions(t.Context(), s, ""), 2, func() {
		d.decide("ops", attend.RouteNote)
		d.decide("ops/db", attend.RouteNote, attend.RouteInterrupt, attend.RouteAsk)
	})
	if !slices.Equal(ids, []string{"d2", "d4"}) {
		t.Errorf("decisions %v, %+v", ids, all)
	}
}

// What the server has decides: the stream, and where there is none, polls; an older
// session too.
func TestM5DecisionsPreferTheStream(t *testing.T) {
	for _, row := range []struct {
		name    string
		modes   []mcpevents.Mode
		version string
	}{{"both", nil, ""}, {"poll", []mcpevents.Mode{mcpevents.Poll}, ""}, {"push", []mcpevents.Mode{mcpevents.Push}, ""}, {"older", nil, "2025-11-25"}} {
		d := newDesk(t, mcpevents.ServerConfig{Compat: row.version != "", NextPoll: time.Millisecond, Types: []mcpevents.Type{{Modes: row.modes}}}, mcpevents.LogConfig{})
		url := d.serve()
		s, err := mcpevents.Connect(t.Context(), client(), &mcp.StreamableClientTransport{Endpoint: url}, mcpevents.SessionConfig{ProtocolVersion: row.version, Compat: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		ids, _ := steps(t, mcpsource.Decisions(t.Context(), s, ""), 2, func() { d.decide("ops", attend.RouteNote, attend.RouteNote) })
		if !slices.Equal(ids, []string{"d1", "d2"}) {
			t.Errorf("%s: %v", row.name, ids)
		}
	}
}

// Sessions that break again and again: nothing is lost, and nothing told twice.
func TestM5DecisionsSurviveReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{})
		dials, current := 0, (*mcpevents.Session)(nil)
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			dials++
			if dials%3 == 2 {
				return nil, errors.New("connection refused")
			}
			s, err := d.dial(ctx, mcpevents.SessionConfig{})
			current = s
			return s, err
		})
		defer sessions.Close()
		var trouble int
		c := mcpsource.DecisionsConfig{OnError: func(error) { trouble++ }}
		var ids []string
		began := time.Now()
		for step, err := range c.Decisions(t.Context(), sessions, "") {
			if err != nil {
				t.Fatal(err)
			}
			if step.Truncated {
				t.Errorf("truncated after %v", ids)
			}
			if step.Decision == nil && len(ids) == 0 {
				d.decide("ops", attend.RouteNote)
			}
			if step.Decision == nil {
				continue
			}
			if ids = append(ids, string(step.Decision.ID)); len(ids) == 6 {
				break
			}
			_ = current.Close() // and the next one happens while there is no session
			d.decide("ops", attend.RouteNote)
		}
		if want := []string{"d1", "d2", "d3", "d4", "d5", "d6"}; !slices.Equal(ids, want) {
			t.Errorf("decisions %v, want %v", ids, want)
		}
		if dials < 6 || trouble < dials-1 {
			t.Errorf("%d sessions were made, and %d troubles told", dials, trouble)
		}
		if took := time.Since(began); took < 3*time.Second || took > 2*time.Minute {
			t.Errorf("it took %v: attempts are to be spaced by a second or so", took)
		}
	})
}

// A server whose store fails for a moment answers with InternalError. Its decisions
// are followed on, with what happened meanwhile.
func TestM5DecisionsSurviveTheServersTrouble(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Push, mcpevents.Poll} {
		synctest.Test(t, func(t *testing.T) {
			log := &faulty{Log: mcpevents.NewLog(mcpevents.LogConfig{})}
			w := newWorld(t, mcpevents.ServerConfig{Types: []mcpevents.Type{{Name: "attention.decision", Backend: log}}}, log.Log)
			d := &desk{world: w}
			log.left.Store(3)
			trouble := 0
			c := mcpsource.DecisionsConfig{Mode: mode, OnError: func(err error) {
				if trouble++; !errors.Is(err, mcpevents.ErrInternal) {
					t.Errorf("%s: trouble is %v, want InternalError", mode, err)
				}
			}}
			sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) { return w.dial(ctx, mcpevents.SessionConfig{}) })
			defer sessions.Close()
			ids, _ := steps(t, c.Decisions(t.Context(), sessions, ""), 1, func() { d.decide("ops", attend.RouteNote) })
			if !slices.Equal(ids, []string{"d1"}) || trouble != 3 {
				t.Errorf("%s: %v after %d troubles, want the decision after 3", mode, ids, trouble)
			}
		})
	}
}

// A faulty log does not know where it is for a while.
type faulty struct {
	*mcpevents.Log
	left atomic.Int64
}

func (f *faulty) Head(ctx context.Context, sub mcpevents.Subscription) (mcpevents.Cursor, error) {
	if f.left.Add(-1) >= 0 {
		return "", errors.New("the store is down")
	}
	return f.Log.Head(ctx, sub)
}

// A server that is not there is left alone for longer and longer.
func TestM5DecisionsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		sessions := mcpsource.NewSessions(func(context.Context) (*mcpevents.Session, error) {
			dials++
			return nil, errors.New("connection refused")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		n := 0
		for _, err := range mcpsource.Decisions(ctx, sessions, "") {
			n++
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		}
		if n != 1 || dials < 15 || dials > 50 {
			t.Errorf("%d pairs and %d attempts in 10 minutes", n, dials)
		}
	})
}

func TestM6DecisionsTellTruncated(t *testing.T) {
	d := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{MaxEvents: 2})
	s := d.session(mcpevents.SessionConfig{})
	_, all := steps(t, mcpsource.Decisions(t.Context(), s, ""), 1, func() { d.decide("ops", attend.RouteNote) })
	kept := all[len(all)-1].Cursor
	d.decide("ops", attend.RouteNote, attend.RouteNote, attend.RouteNote, attend.RouteNote)
	ids, all := steps(t, mcpsource.Decisions(t.Context(), s, kept), 2, nil)
	if !slices.Equal(ids, []string{"d4", "d5"}) || !all[0].Truncated {
		t.Errorf("decisions %v, truncated first: %v", ids, all[0].Truncated)
	}
	for _, step := range all[1:] {
		if step.Truncated {
			t.Errorf("truncated is told again: %+v", step)
		}
	}
	// Told at once, also where nothing follows.
	c := mcpsource.DecisionsConfig{Scope: "dev"}
	for step, err := range c.Decisions(t.Context(), s, "of another life") {
		if err != nil || !step.Truncated || step.Decision != nil || step.Cursor == "" {
			t.Errorf("the first step is %+v, %v", step, err)
		}
		break
	}
}

// What can't be read is told, and costs no other.
func TestM5ADecisionThatCannotBeRead(t *testing.T) {
	d := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{})
	s := d.session(mcpevents.SessionConfig{})
	var told []string
	c := mcpsource.DecisionsConfig{OnError: func(err error) { told = append(told, err.Error()) }}
	ids, all := steps(t, c.Decisions(t.Context(), s, ""), 2, func() {
		d.decide("ops", attend.RouteNote)
		d.tell("bad", `{"id":"secret","at":"secret"}`)
		d.tell("none", `{"secret":1}`)
		d.decide("ops", attend.RouteNote)
	})
	if !slices.Equal(ids, []string{"d1", "d2"}) || len(told) != 2 || strings.Contains(strings.Join(told, ""), "secret") {
		t.Errorf("decisions %v, told %v", ids, told)
	}
	if last := all[len(all)-1]; !last.Truncated && !slices.ContainsFunc(all, func(s mcpsource.Decided) bool { return s.Truncated }) {
		t.Errorf("nothing tells that a decision is missing: %+v", all)
	}
}

func TestM5DecisionsEnd(t *testing.T) {
	forbid := func(context.Context, mcpevents.Subscription) error { return mcpevents.ErrForbidden }
	forbidden := newDesk(t, mcpevents.ServerConfig{Types: []mcpevents.Type{{Check: forbid}}}, mcpevents.LogConfig{})
	other := newWorld(t, mcpevents.ServerConfig{}, nil)
	good := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{}).session(mcpevents.SessionConfig{})
	var none *mcpevents.Session
	for _, row := range []struct {
		name string
		from mcpsource.Follower
		c    mcpsource.DecisionsConfig
		want error
	}{
		{"forbidden", forbidden.session(mcpevents.SessionConfig{}), mcpsource.DecisionsConfig{}, mcpevents.ErrForbidden},
		{"another server", other.session(mcpevents.SessionConfig{}), mcpsource.DecisionsConfig{}, mcpevents.ErrNoMode},
		{"no session", none, mcpsource.DecisionsConfig{}, attend.ErrInvalid},
		{"nothing", nil, mcpsource.DecisionsConfig{}, attend.ErrInvalid},
		{"scope", good, mcpsource.DecisionsConfig{Scope: "a\nb"}, attend.ErrInvalid},
		{"routes", good, mcpsource.DecisionsConfig{Routes: []attend.Route{attend.RouteSkip}}, attend.ErrInvalid},
		{"receiver", good, mcpsource.DecisionsConfig{Mode: mcpevents.Webhook}, attend.ErrInvalid},
		{"interval", good, mcpsource.DecisionsConfig{PollInterval: -1}, attend.ErrInvalid},
	} {
		n := 0
		for step, err := range row.c.Decisions(t.Context(), row.from, "") {
			n++
			if _, permanent := errors.AsType[*attend.PermanentError](err); !permanent || !errors.Is(err, row.want) || step.Decision != nil {
				t.Errorf("%s: %+v, %v, want a permanent error that is %v", row.name, step, err, row.want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d pairs, want 1", row.name, n)
		}
	}
	// A session that closes ends it, and so does a context.
	d := newDesk(t, mcpevents.ServerConfig{}, mcpevents.LogConfig{})
	s := d.session(mcpevents.SessionConfig{})
	var last error
	for _, err := range mcpsource.Decisions(t.Context(), s, "") {
		if last = err; err == nil {
			_ = s.Close()
		}
	}
	if _, permanent := errors.AsType[*attend.PermanentError](last); !permanent || !errors.Is(last, mcpevents.ErrClosed) {
		t.Errorf("a session that closed: %v", last)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("enough")
	for _, err := range mcpsource.Decisions(ctx, d.session(mcpevents.SessionConfig{}), "") {
		if last = err; err == nil {
			cancel(why)
		}
	}
	if !errors.Is(last, why) {
		t.Errorf("a context that ended: %v", last)
	}
}

func ExampleDecisions() {
	dial := func(ctx context.Context) (*mcpevents.Session, error) {
		c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
		return mcpevents.Connect(ctx, c, &mcp.StreamableClientTransport{Endpoint: "http://127.0.0.1:8787/mcp"}, mcpevents.SessionConfig{})
	}
	sessions := mcpsource.NewSessions(dial)
	defer sessions.Close()
	kept := attend.Cursor("") // from where it was kept; empty: from now on
	for step, err := range mcpsource.Decisions(context.Background(), sessions, kept) {
		if err != nil {
			fmt.Println(err) // it is of no use to go on
			return
		}
		if step.Truncated {
			fmt.Println("(decisions are missing here)")
		}
		if step.Decision != nil {
			fmt.Println(step.Decision.Route, step.Notice)
		}
		kept = step.Cursor // keep it once the decision is dealt with
	}
}
