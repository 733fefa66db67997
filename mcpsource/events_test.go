package mcpsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// A script is a Follower that yields what it is given, and then its error.
type script struct {
	batches []mcpevents.Batch
	end     error
	asked   []mcpevents.FollowConfig
	sub     mcpevents.Subscription
}

func (s *script) Follow(_ context.Context, sub mcpevents.Subscription, f mcpevents.FollowConfig) iter.Seq2[mcpevents.Batch, error] {
	s.sub, s.asked = sub, append(s.asked, f)
	return func(yield func(mcpevents.Batch, error) bool) {
		for _, b := range s.batches {
			if !yield(b, nil) {
				return
			}
		}
		if s.end != nil {
			yield(mcpevents.Batch{}, s.end)
		}
	}
}

// all is what a source yields after a cursor, and how it ends.
func all(t testing.TB, s attend.Source, after attend.Cursor) (out []attend.Batch, err error) {
	t.Helper()
	for b, e := range s.Batches(t.Context(), after) {
		if e != nil {
			err = e
			continue
		}
		if err != nil {
			t.Fatalf("a batch after the error %v", err)
		}
		out = append(out, b)
	}
	return out, err
}

// C3: id, time, name and data are as they came, and text is empty; what attend
// can't keep is replaced.
func TestC3AnEventIsAsItCame(t *testing.T) {
	at := time.Date(2026, 11, 3, 9, 15, 2, 123_000_000, time.FixedZone("", 3600))
	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		name string
		in   mcpevents.Event
		want attend.Event
	}{
		{"plain", mcpevents.Event{ID: "e/1.2 é", Name: "alert", At: at, Data: json.RawMessage(`{"a":[1,2]}`), Cursor: "c"},
			attend.Event{ID: "e/1.2 é", Name: "alert", At: at, Data: json.RawMessage(`{"a":[1,2]}`)}},
		{"metadata is of the protocol", mcpevents.Event{ID: "1", Name: "alert", At: at, Data: json.RawMessage(`{}`), Meta: map[string]any{"x": 1}, Mismatch: true},
			attend.Event{ID: "1", Name: "alert", At: at, Data: json.RawMessage(`{}`)}},
		{"a long id", mcpevents.Event{ID: long, Name: "alert", At: at, Data: json.RawMessage(`{}`)},
			attend.Event{ID: "sha256:", Name: "alert", At: at, Data: json.RawMessage(`{}`)}},
		{"an id with a line break", mcpevents.Event{ID: "a\nb", Name: "alert", At: at, Data: json.RawMessage(`{}`)},
			attend.Event{ID: "sha256:", Name: "alert", At: at, Data: json.RawMessage(`{}`)}},
		{"no time that can be read", mcpevents.Event{ID: "1", Name: "alert", Timestamp: "yesterday", Data: json.RawMessage(`{}`)},
			attend.Event{ID: "1", Name: "alert", Data: json.RawMessage(`{}`)}},
		{"a year that can't be kept", mcpevents.Event{ID: "1", Name: "alert", At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Data: json.RawMessage(`{}`)},
			attend.Event{ID: "1", Name: "alert", Data: json.RawMessage(`{}`)}},
		{"the year 0", mcpevents.Event{ID: "1", Name: "alert", At: time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), Data: json.RawMessage(`{}`)},
			attend.Event{ID: "1", Name: "alert", Data: json.RawMessage(`{}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := source(t, &script{batches: []mcpevents.Batch{{Events: []mcpevents.Event{c.in}, Cursor: "c"}}}, mcpsource.Config{})
			got, err := all(t, src, "")
			if err != nil || len(got) != 1 || len(got[0].Events) != 1 {
				t.Fatalf("Batches() = %v, %v, want one event", got, err)
			}
			e := got[0].Events[0]
			if strings.HasPrefix(c.want.ID, "sha256:") {
				if !strings.HasPrefix(e.ID, "sha256:") || len(e.ID) != len("sha256:")+64 {
					t.Errorf("id %q, want the hash of one that can't be kept", e.ID)
				}
				c.want.ID = e.ID
			}
			if e.ID != c.want.ID || !e.At.Equal(c.want.At) || e.Name != c.want.Name || string(e.Data) != string(c.want.Data) || e.Text != "" || e.Kind != "" {
				t.Errorf("event %+v, want %+v", e, c.want)
			}
			if _, err := e.Clean(); err != nil {
				t.Errorf("Clean() = %v, want it to be taken", err)
			}
			if got[0].Cursor != "c" {
				t.Errorf("cursor %q, want c", got[0].Cursor)
			}
		})
	}
}

// C3: different ids that can't be kept stay different, and the same stay the same.
func TestC3HashesOfIDsTellThemApart(t *testing.T) {
	head := strings.Repeat("x", 300)
	s := &script{batches: []mcpevents.Batch{{Events: []mcpevents.Event{{ID: head + "1", Name: "alert"}, {ID: head + "2", Name: "alert"}}}, {Events: []mcpevents.Event{{ID: head + "1", Name: "alert"}}}}}
	got, _ := all(t, source(t, s, mcpsource.Config{}), "")
	a, b, c := got[0].Events[0].ID, got[0].Events[1].ID, got[1].Events[0].ID
	if a == b || a != c {
		t.Errorf("ids %q, %q and %q, want the first and last alike, the second not", a, b, c)
	}
}

// C3: what the engine refuses becomes a dead letter of stage intake, what
// mcpevents drops sets the gap; neither stops the source, nor the events around.
func TestC3WhatCannotBeTakenLeavesATrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		big := `{"x":"` + strings.Repeat("a", 1<<20-8) + `"}` // with the rest of its event over 1 MiB
		huge := `{"x":"` + strings.Repeat("a", 2<<20) + `"}`
		deep := strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)
		p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
			if c.Method != "events/stream" {
				return
			}
			p.active(c, "c0")
			p.event(c, "first", "c1")
			p.note(c, "event", wireEvent("big", "c2", big))
			p.note(c, "event", wireEvent("none", "c3", `{"kind":"none"}`))
			p.event(c, strings.Repeat("long", 500), "c4")
			p.note(c, "event", wireEvent("huge", "c5", huge))
			p.note(c, "event", wireEvent("deep", "c6", deep))
			p.note(c, "event", `"eventId":"bad","cursor":"c7"`)
			p.event(c, "last", "c8")
		}}
		var told []error
		r := newRig(t, nil)
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{OnError: func(err error) { told = append(told, err) }})
		detach := r.attach(t, src)
		time.Sleep(time.Second)
		synctest.Wait()
		_ = detach()
		heard := r.heard()
		if len(heard) != 3 || heard[0] != "first" || !strings.HasPrefix(heard[1], "sha256:") || heard[2] != "last" {
			t.Errorf("heard %v, want first, a hash and last", heard)
		}
		var letters []string
		for _, l := range r.letters.Taken() {
			if l.Stage != attend.StageIntake {
				t.Errorf("a letter of stage %s, want intake", l.Stage)
			}
			letters = append(letters, l.Window.Events[0].ID)
		}
		if !slices.Equal(letters, []string{"big", "none"}) {
			t.Errorf("dead letters %v, want big and none", letters)
		}
		var drops []string
		for _, err := range told {
			drops = append(drops, err.Error())
		}
		if want := []string{"mcpevents: dropped: oversize", "mcpevents: dropped: oversize", "mcpevents: dropped: malformed"}; !slices.Equal(drops, want) {
			t.Errorf("OnError heard %q, want %q", drops, want)
		}
		if r.gaps() == 0 {
			t.Error("no window has a gap, and three events are missing")
		}
		if got := r.cursor(t, src); got != "c8" {
			t.Errorf("cursor %q, want c8", got)
		}
	})
}

// C3: truncated sets the window's gap, and nothing else.
func TestC3TruncatedSetsTheGap(t *testing.T) {
	one := []mcpevents.Event{{ID: "1", Name: "alert"}}
	s := &script{batches: []mcpevents.Batch{{Cursor: "a"}, {Events: one, Cursor: "b", Truncated: true}, {Events: one, Cursor: "c"}}}
	got, err := all(t, source(t, s, mcpsource.Config{}), "")
	if err != nil || len(got) != 3 || got[0].Gap || !got[1].Gap || got[2].Gap {
		t.Errorf("Batches() = %+v, %v, want a gap in the second alone", got, err)
	}
}

// C3: what is told of besides events, and is not understood, is no gap, but what
// can't be read may have been an event.
func TestC3WhatIsNotUnderstoodIsNoGap(t *testing.T) {
	for more, want := range map[string]int{
		`{"jsonrpc":"2.0","method":"notifications/events/later","params":{"x":"","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`:                                  0,
		`{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{"cursor":7,"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`:                          0,
		`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"x":"` + strings.Repeat("x", 5000) + `","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`: 1,
	} {
		bubble(t, func(t *testing.T) {
			p := &peer{modes: `"push"`, serve: func(p *peer, c call) {
				if c.Method == "events/stream" {
					p.active(c, "c0")
					p.write(strings.ReplaceAll(more, "ID", string(c.ID)))
					p.event(c, "good", "c1")
				}
			}}
			r := newRig(t, nil)
			detach := r.attach(t, source(t, p.connect(t, mcpevents.SessionConfig{MaxMessageBytes: 4000}), mcpsource.Config{}))
			time.Sleep(time.Second)
			_ = detach()
			if got := r.heard(); !slices.Equal(got, []string{"good"}) || r.gaps() != want {
				t.Errorf("%.90s: heard %v with %d gaps, want good with %d", more, got, r.gaps(), want)
			}
		})
	}
}

// C3: a poll with hasMore is followed at once, one without after nextPollMs, else
// after PollInterval.
func TestC3ThePaceOfPolls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answers := []string{
			`"cursor":"a","events":[],"hasMore":true,"nextPollMs":60000`,
			`"cursor":"b","events":[],"hasMore":false,"nextPollMs":25000`,
			`"cursor":"c","events":[],"hasMore":false`,
			`"cursor":"d","events":[],"truncated":false`,
		}
		p := &peer{modes: `"poll"`}
		p.serve = func(p *peer, c call) {
			n := len(p.seen("events/poll"))
			p.result(c, answers[min(n, len(answers))-1])
		}
		src := source(t, p.connect(t, mcpevents.SessionConfig{}), mcpsource.Config{PollInterval: 7 * time.Second})
		detach := newRig(t, nil).attach(t, src)
		time.Sleep(time.Minute)
		_ = detach()
		polls := p.seen("events/poll")
		var gaps []string
		for i := 1; i < 5; i++ {
			gaps = append(gaps, polls[i].at.Sub(polls[i-1].at).String())
		}
		if want := []string{"0s", "25s", "7s", "7s"}; !slices.Equal(gaps, want) {
			t.Errorf("between polls %v, want %v", gaps, want)
		}
		if polls[0].cursor() != "" || polls[1].cursor() != "a" || polls[4].cursor() != "d" {
			t.Errorf("polls from %q, %q … %q, want nothing, a … d", polls[0].cursor(), polls[1].cursor(), polls[4].cursor())
		}
	})
	if got := defaultPace(t); got != 10*time.Second {
		t.Errorf("PollInterval by default is %v, want 10 s", got)
	}
}

func defaultPace(t *testing.T) time.Duration {
	s := &script{}
	_, _ = all(t, source(t, s, mcpsource.Config{}), "")
	return s.asked[0].PollInterval
}

// C2: the key is made of the server, the name and the canonical arguments; two
// subscriptions never share one.
func TestC2Key(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1100) + `"}`
	for _, c := range []struct {
		name string
		c    mcpsource.Config
		want string
	}{
		{"plain", mcpsource.Config{}, "mcp::alert:{}"},
		{"server and arguments", mcpsource.Config{Server: "ci", Arguments: json.RawMessage(` {"b" : 1.0, "a":"\u00e9"} `)}, `mcp:ci:alert:{"a":"é","b":1}`},
		{"a server with colons", mcpsource.Config{Server: "https://ci:8/100%"}, "mcp:https%3A//ci%3A8/100%25:alert:{}"},
		{"a name with colons", mcpsource.Config{Server: "a", Name: "b:c"}, "mcp:a:b:c:{}"},
		{"its neighbour", mcpsource.Config{Server: "a:b", Name: "c"}, "mcp:a%3Ab:c:{}"},
		{"long arguments", mcpsource.Config{Arguments: json.RawMessage(long)}, "mcp::alert:sha256:"},
		{"control characters", mcpsource.Config{Arguments: json.RawMessage("{\"a\":\"\u0085\"}")}, "mcp::alert:sha256:"},
		{"the longest of all", mcpsource.Config{Server: strings.Repeat("s", 512), Name: strings.Repeat("n", 256), Arguments: json.RawMessage(long)},
			"mcp:" + strings.Repeat("s", 512) + ":" + strings.Repeat("n", 256) + ":sha256:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := source(t, &script{}, c.c)
			got := src.Key()
			if strings.HasSuffix(c.want, "sha256:") {
				if !strings.HasPrefix(got, c.want) || len(got) != len(c.want)+64 {
					t.Errorf("Key() = %q, want %s and a hash", got, c.want)
				}
			} else if got != c.want {
				t.Errorf("Key() = %q, want %q", got, c.want)
			}
			if _, err := (attend.Event{ID: "x", Name: "x", Source: got}).Clean(); err != nil {
				t.Errorf("Key() = %q is no key: %v", got, err)
			}
		})
	}
	a := source(t, &script{}, mcpsource.Config{Arguments: json.RawMessage(long)}).Key()
	b := source(t, &script{}, mcpsource.Config{Arguments: json.RawMessage(strings.Replace(long, "xx", "xy", 1))}).Key()
	if a == b {
		t.Errorf("two long arguments share the key %q", a)
	}
}

// A misuse is an error of New that names the field.
func TestNewRefuses(t *testing.T) {
	var none *mcpevents.Session
	for _, c := range []struct {
		field string
		from  mcpsource.Follower
		c     mcpsource.Config
	}{
		{"session", nil, mcpsource.Config{Name: "alert"}},
		{"session", none, mcpsource.Config{Name: "alert"}},
		{"session", mcpsource.NewSessions(nil), mcpsource.Config{Name: "alert"}},
		{"Name", &script{}, mcpsource.Config{}},
		{"Name", &script{}, mcpsource.Config{Name: "a\nb"}},
		{"Name", &script{}, mcpsource.Config{Name: strings.Repeat("n", 257)}},
		{"Server", &script{}, mcpsource.Config{Name: "alert", Server: strings.Repeat("s", 513)}},
		{"Server", &script{}, mcpsource.Config{Name: "alert", Server: "a\x00b"}},
		{"Server", &script{}, mcpsource.Config{Name: "alert", Server: "\xff"}},
		{"Arguments", &script{}, mcpsource.Config{Name: "alert", Arguments: json.RawMessage(`[]`)}},
		{"Arguments", &script{}, mcpsource.Config{Name: "alert", Arguments: json.RawMessage(`{"a":1,"a":2}`)}},
		{"Mode", &script{}, mcpsource.Config{Name: "alert", Mode: "pull"}},
		{"Receiver", &script{}, mcpsource.Config{Name: "alert", Mode: mcpevents.Webhook}},
		{"MaxAge", &script{}, mcpsource.Config{Name: "alert", MaxAge: -1}},
		{"PollInterval", &script{}, mcpsource.Config{Name: "alert", PollInterval: -1}},
		{"MaxBuffered", &script{}, mcpsource.Config{Name: "alert", MaxBuffered: -1}},
		{"IdleTimeout", &script{}, mcpsource.Config{Name: "alert", IdleTimeout: -1}},
	} {
		s, err := mcpsource.New(c.from, c.c)
		if s != nil || !invalid(err, c.field) {
			t.Errorf("New(%+v) = %v, %v, want ErrInvalid of %s", c.c, s, err, c.field)
		}
	}
}

func invalid(err error, field string) bool {
	return err != nil && strings.Contains(fmt.Sprint(err), "attend: "+field+": want ")
}

// Sizes is a Follower that fails above some number of events.
type sizes struct {
	asked *[]int
	fits  int
	err   error
}

func (s *sizes) Follow(_ context.Context, _ mcpevents.Subscription, f mcpevents.FollowConfig) iter.Seq2[mcpevents.Batch, error] {
	*s.asked = append(*s.asked, f.MaxEvents)
	return func(yield func(mcpevents.Batch, error) bool) {
		if f.MaxEvents > s.fits {
			yield(mcpevents.Batch{}, s.err)
		} else if yield(mcpevents.Batch{Cursor: "c"}, nil) {
			yield(mcpevents.Batch{}, mcpevents.ErrEnded)
		}
	}
}
