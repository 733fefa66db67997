package machine

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// modelTale is a session told by hand. Times are milliseconds since its start.
type modelTale struct {
	t  *testing.T
	s  State
	fx Effects
}

func newModelTale(t *testing.T, change func(p *Policy)) *modelTale {
	p := DefaultPolicy()
	if change != nil {
		change(&p)
	}
	m := &modelTale{t: t}
	m.step(Configure{At: m.at(0), Scope: "s", Policy: &p})
	return m
}

func (m *modelTale) at(ms int) time.Time { return time.UnixMilli(modelStart + int64(ms)) }

func (m *modelTale) step(in Input) {
	m.s, m.fx = Step(m.s, in)
	if err := fuzzHolds(m.s); err != nil {
		m.t.Fatalf("after %s: %v", fuzzInput(in), err)
	}
}

// configure changes the settings.
func (m *modelTale) configure(at int, change func(p *Policy)) {
	p := *m.s.policy
	change(&p)
	m.step(Configure{At: m.at(at), Policy: &p})
}

// events reads "e1:closing e2:flush"; a number behind another colon is bytes of
// data.
func (m *modelTale) events(list string) []attend.Event {
	var out []attend.Event
	for _, word := range strings.Fields(list) {
		part := strings.Split(word, ":")
		e := attend.Event{ID: part[0], Name: "n", Kind: attend.Kind(part[1])}
		if len(part) > 2 {
			var n int
			if _, err := fmt.Sscan(part[2], &n); err != nil {
				m.t.Fatal(err)
			}
			e.Data = []byte(`"` + strings.Repeat("x", n) + `"`)
		}
		out = append(out, e)
	}
	return out
}

func (m *modelTale) push(at int, list string) {
	m.step(Arrive{At: m.at(at), Events: m.events(list)})
}

func (m *modelTale) judged(at int, r attend.Route) {
	if m.s.slot == nil {
		m.t.Fatalf("at %d ms nothing is to be judged", at)
	}
	m.step(Judged{At: m.at(at), Num: m.s.slot.num, Judgment: attend.Judgment{Route: r}})
}

func (m *modelTale) claim(at int) {
	m.step(Claim{At: m.at(at), Num: m.s.slot.num, Owner: 1, Until: m.at(at + 30_000)})
}

// shape is what is where, such as "open e2 slot e1 flush".
func (m *modelTale) shape() string {
	names := func(entries []*entry) (s string) {
		for _, e := range entries {
			s += " " + e.id()
		}
		return s
	}
	s := "open" + names(m.s.open.appendTo(nil))
	if m.s.held != nil {
		s += ", held" + names(m.s.held.appendTo(nil))
	}
	if m.s.slot != nil {
		s += ", slot" + names(m.s.slot.entries) + " " + string(m.s.slot.reason)
	}
	return s
}

func (m *modelTale) want(shape string) {
	m.t.Helper()
	if got := m.shape(); got != shape {
		m.t.Errorf("there is %q, want %q", got, shape)
	}
}

// What the model, the fuzzing or the simulation once found in the machine, each
// in the fewest inputs.
func TestRegressions(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T)
	}{
		// Found by FuzzModel: the repeat changed nothing, so what the last push
		// brought was forgotten with its window, and taken in again (E3).
		{"a repeat that only its window remembers is remembered", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.SeenCount = 1 })
			m.push(0, "now:flush") // busy
			m.push(0, "a:closing")
			m.push(0, "b:closing")
			m.push(0, "c:closing") // a is forgotten, but waits
			m.push(0, "a:closing") // its answer is lost
			m.judged(0, attend.RouteSkip)
			m.step(Tick{m.at(600)})
			m.want("open, slot a b c closing")
			m.judged(700, attend.RouteQueue)
			m.push(800, "a:closing")
			if m.fx.Fresh != 0 {
				t.Errorf("the last push, sent again, has %d new events, want 0", m.fx.Fresh)
			}
		}},
		// Found by FuzzModel: the write that settled e1 kept the batch's number
		// too, and the same batch tried again counted as taken (E29, E33).
		{"a batch that was not taken has not landed", func(t *testing.T) {
			m := newModelTale(t, nil)
			m.step(Arrive{At: m.at(0), Source: "a", Cursor: "5", Events: m.events("e1:closing")})
			batch := Arrive{At: m.at(600), Writer: 7, Number: 1, Source: "a", After: "2", Cursor: "3", Events: m.events("e2:closing")}
			for try := range 2 {
				m.step(batch)
				if m.fx.Batch != Elsewhere || m.fx.Place != "5" {
					t.Errorf("try %d: batch %d at %q, want %d at %q", try, m.fx.Batch, m.fx.Place, Elsewhere, "5")
				}
			}
		}},
		// Found by FuzzModel: what did not fit held no act and was over its size
		// share, and the next act settled it alone (E8).
		{"what is left without an act sheds by size at once", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.MaxWindowBytes = 450 })
			m.push(0, "log:consequence act:closing big:consequence:400 own:context:100")
			m.want("open own, slot log act size")
			if m.s.open.dropped != 1 {
				t.Errorf("dropped = %d, want 1", m.s.open.dropped)
			}
		}},
		// Found by FuzzModel: the first act's deadline was set anew when the held
		// window before it settled under other settings (E48).
		{"an age that is set stays", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.MaxWindow = 10 * time.Second })
			m.push(0, "a:closing b:closing")
			m.step(Tick{m.at(500)})
			m.push(600, "c:closing d:closing")
			m.configure(700, func(p *Policy) { p.MaxEvents = 2; p.MaxWindow = time.Minute })
			m.judged(700, attend.RouteWait)
			m.want("open c d, slot a b overflow")
			if got, want := m.s.open.age.time(), m.at(10_600); !got.Equal(want) {
				t.Errorf("age = %v, want %v", got, want)
			}
		}},
		// Found by FuzzModel: dropping the context at the head moved the time at
		// which the window had opened (E11).
		{"a window opened when it opened, whatever is dropped from it", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.MaxWindowBytes = 450 })
			m.push(0, "own:context:300")
			m.want("open own")
			m.push(1, "act:closing:20")
			m.want("open, slot act size")
			if got, want := m.s.slot.opened.time(), m.at(0); !got.Equal(want) {
				t.Errorf("opened = %v, want %v", got, want)
			}
		}},
		// Found by FuzzModel: a held window that lost all but context goes back,
		// and forgot when it had opened (E11).
		{"a held window that goes back opened when it opened", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.MaxEvents = 2 })
			m.push(0, "log:consequence")
			m.step(End{At: m.at(0)})
			m.judged(0, attend.RouteWait)
			m.push(1, "own:context")
			m.push(2, "own2:context")
			m.want("open own own2, held")
			m.step(Tick{m.at(10_000)})
			m.want("open own own2")
			if got, want := m.s.open.opened.time(), m.at(0); !got.Equal(want) {
				t.Errorf("opened = %v, want %v", got, want)
			}
			if m.s.open.dropped != 1 || m.s.open.waits != 1 {
				t.Errorf("dropped %d and waits %d, want 1 and 1", m.s.open.dropped, m.s.open.waits)
			}
		}},
		// Found by FuzzStep's replay: a judge's wrong answer changed the state
		// and could not be read back (E13, E28). Every kind of fault is tried.
		{"a wrong answer can be kept and read", func(t *testing.T) {
			for _, j := range []attend.Judgment{
				{Route: "shout"},
				{},
				{Route: attend.RouteQueue, Confidence: math.NaN()},
				{Route: attend.RouteQueue, Probabilities: map[attend.Route]float64{"shout": 0.5}},
				{Route: attend.RouteQueue, Probabilities: map[attend.Route]float64{attend.RouteAsk: 1.5}},
				{Route: attend.RouteQueue, Predicates: map[string]float64{"late": -1}},
				{Route: attend.RouteWait}, // to whoever speaks
			} {
				m := newModelTale(t, nil)
				m.push(0, "e1:flush")
				m.claim(0)
				m.replays(Judged{At: m.at(10), Num: m.s.slot.num, Attempt: m.s.slot.lease.attempt, Judgment: j})
				if slot, ok := m.s.Slot(); !ok || slot.Attempts != 1 {
					t.Errorf("after %+v: %d failed attempts, want 1", j, slot.Attempts)
				}
			}
		}},
		// Found by reading, and by FuzzStep's replay: the dead letter of an event
		// that no kind fits made its scope unreadable (E2).
		{"an event without a kind can be kept and read", func(t *testing.T) {
			m := newModelTale(t, nil)
			for _, k := range []attend.Kind{"", "shout"} {
				e := attend.Event{ID: "e" + string(k), Name: "n", Kind: k}
				m.replays(Arrive{At: m.at(0), Source: "a", After: m.s.Cursor("a"), Cursor: attend.Cursor("1" + k), Rejected: []Rejected{{e, "no kind"}}})
			}
			if n := len(m.s.Letters()); n != 2 {
				t.Errorf("%d letters, want 2", n)
			}
		}},
		// Found by FuzzStep: 0 is no moment, and before it nothing came due, so a
		// clock that stands at 1970 settled nothing.
		{"a clock before 1970 settles too", func(t *testing.T) {
			p := DefaultPolicy()
			p.MaxEvents = 1
			s, _ := Step(State{}, Configure{At: time.UnixMilli(-5000), Scope: "s", Policy: &p})
			s, _ = Step(s, Arrive{At: time.UnixMilli(-4000), Events: newModelTale(t, nil).events("a:closing b:closing")})
			if s.slot == nil || s.slot.reason != attend.ReasonOverflow {
				t.Errorf("two acts of at most one settled nothing")
			}
		}},
		// Found by reading: the bytes of many short events were reckoned to be
		// fewer than none, and EncodeState panicked.
		{"many events of few bytes can be encoded", func(t *testing.T) {
			m := newModelTale(t, func(p *Policy) { p.MaxEvents = 2000; p.SeenCount = 0 })
			m.push(0, "now:flush")
			for i := range 1500 {
				e := attend.Event{ID: string(rune(0x100 + i)), Kind: attend.KindFlush}
				m.s, _ = Step(m.s, Arrive{At: m.at(0), Events: []attend.Event{e}})
			}
			if got, err := DecodeState(EncodeState(m.s)); err != nil || got.open.len() != 1500 {
				t.Errorf("DecodeState = %d events, %v, want 1500", got.open.len(), err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// replays steps an input, and again from the bytes of the state before it and
// its own: both must give the same.
func (m *modelTale) replays(in Input) {
	m.t.Helper()
	r := attend.Record{Snapshot: EncodeState(m.s), Tail: [][]byte{EncodeInput(in)}}
	m.step(in)
	if !m.fx.Changed {
		m.t.Fatalf("%s changed nothing", fuzzInput(in))
	}
	s, err := Replay(r)
	if err != nil {
		m.t.Errorf("%s: replay: %v", fuzzInput(in), err)
		return
	}
	if err := fuzzSame(s, m.s); err != nil {
		m.t.Errorf("%s: replay: %v", fuzzInput(in), err)
	}
}
