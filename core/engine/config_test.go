package engine_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// E39: misuse fails at construction, with an error that names the option.
func TestE39Misuse(t *testing.T) {
	nothing := attend.SinkFunc(func(context.Context, attend.Decision) error { return nil })
	for _, row := range []struct {
		option string
		set    func(*engine.Config)
	}{
		{"Store", func(c *engine.Config) { c.Store = nil }},
		{"Kind", func(c *engine.Config) { c.Kind = nil }},
		{"Judge", func(c *engine.Config) { c.Judge = nil }},
		{"Judge", func(c *engine.Config) { c.Judge = attend.JudgeFunc(nil) }},
		{"Sink", func(c *engine.Config) { c.Sink = nil }},
		{"Sink", func(c *engine.Config) { c.Sink = attend.SinkFunc(nil) }},
		{"DeadLetter", func(c *engine.Config) { c.DeadLetter = nil }},
		{"DeadLetter", func(c *engine.Config) { c.DeadLetter = attend.LetterFunc(nil) }},
		{"Sink.Routes.Interrupt", func(c *engine.Config) { c.Sink = attend.Routes{Queue: nothing, Note: nothing, Ask: nothing} }},
		{"Sink.Routes.Queue", func(c *engine.Config) { c.Sink = attend.Routes{Interrupt: nothing, Note: nothing, Ask: nothing} }},
		{"Sink.Routes.Note", func(c *engine.Config) { c.Sink = attend.Routes{Interrupt: nothing, Queue: nothing, Ask: nothing} }},
		{"Sink.Routes.Ask", func(c *engine.Config) { c.Sink = &attend.Routes{Interrupt: nothing, Queue: nothing, Note: nothing} }},
		{"ActThreshold", func(c *engine.Config) { c.ActThreshold = -0.1 }},
		{"ActThreshold", func(c *engine.Config) { c.ActThreshold = 1.1 }},
		{"ActThreshold", func(c *engine.Config) { c.ActThreshold = math.NaN() }},
		{"WindowShare", func(c *engine.Config) { c.WindowShare = -0.5 }},
		{"WindowShare", func(c *engine.Config) { c.WindowShare = 1.5 }},
		{"WindowShare", func(c *engine.Config) { c.WindowShare = math.NaN() }},
		{"Criteria", func(c *engine.Config) { c.Criteria = map[attend.Route]string{"shout": "never"} }},
		{"Predicates", func(c *engine.Config) { c.Predicates = map[string]string{"": "?"} }},
		{"Predicates", func(c *engine.Config) { c.Predicates = map[string]string{strings.Repeat("x", 257): "?"} }},
		{"ClosingGrace", func(c *engine.Config) { c.Settle.ClosingGrace = -1 }},
		{"ClosingGrace", func(c *engine.Config) { c.Settle.ClosingGrace = time.Microsecond }},
		{"StreamGap", func(c *engine.Config) { c.Settle.StreamGap = -time.Second }},
		{"PassiveQuiet", func(c *engine.Config) { c.Settle.PassiveQuiet = -time.Second }},
		{"WaitHorizon", func(c *engine.Config) { c.Settle.WaitHorizon = -time.Second }},
		{"MaxWindow", func(c *engine.Config) { c.Settle.MaxWindow = -time.Second }},
		{"MaxEvents", func(c *engine.Config) { c.Settle.MaxEvents = -1 }},
		{"MaxWindowBytes", func(c *engine.Config) { c.Settle.MaxWindowBytes = -1 }},
		{"JudgeTimeout", func(c *engine.Config) { c.JudgeTimeout = -time.Second }},
		{"JudgeTimeout", func(c *engine.Config) { c.JudgeTimeout = time.Microsecond }},
		{"DeliveryTimeout", func(c *engine.Config) { c.DeliveryTimeout = -time.Second }},
		{"DeliveryTimeout", func(c *engine.Config) { c.DeliveryTimeout = time.Microsecond }},
		{"CaptureTimeout", func(c *engine.Config) { c.CaptureTimeout = -time.Second }},
		{"RetryBackoff", func(c *engine.Config) { c.RetryBackoff = []time.Duration{time.Second, -time.Second} }},
		{"RetryBackoff", func(c *engine.Config) { c.RetryBackoff = make([]time.Duration, 33) }},
		{"MaxOutbox", func(c *engine.Config) { c.MaxOutbox = -1 }},
		{"MaxDeadLetters", func(c *engine.Config) { c.MaxDeadLetters = -1 }},
		{"MaxBacklog", func(c *engine.Config) { c.MaxBacklog = -1 }},
		{"DeadLetterBackoffMax", func(c *engine.Config) { c.DeadLetterBackoffMax = -time.Second }},
		{"AccountGrace", func(c *engine.Config) { c.AccountGrace = -time.Second }},
		{"IdleExpiry", func(c *engine.Config) { c.IdleExpiry = -time.Second }},
		{"SweepInterval", func(c *engine.Config) { c.SweepInterval = -time.Second }},
		{"SweepGrace", func(c *engine.Config) { c.SweepGrace = -time.Second }},
		{"SweepLimit", func(c *engine.Config) { c.SweepLimit = -1 }},
		{"ShutdownGrace", func(c *engine.Config) { c.ShutdownGrace = -time.Second }},
		{"MaxCalls", func(c *engine.Config) { c.MaxCalls = -1 }},
		{"ResidentBytes", func(c *engine.Config) { c.ResidentBytes = -1 }},
	} {
		cfg := config()
		row.set(&cfg)
		e, err := engine.New(cfg)
		i, ok := errors.AsType[*attend.InvalidError](err)
		if !ok || i.Field != row.option || e != nil {
			t.Errorf("New() without a good %s = %v, want an InvalidError that names it", row.option, err)
		}
		if _, err := engine.NewDrive(cfg); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("NewDrive() without a good %s = %v, want ErrInvalid", row.option, err)
		}
	}
}

// The defaults are those of the specification, and a Policy asked for by itself
// is what an engine works with.
func TestTheDefaults(t *testing.T) {
	cfg := config()
	p, err := cfg.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name      string
		got, want any
	}{
		{"ClosingGrace", p.ClosingGrace, 500 * time.Millisecond},
		{"StreamGap", p.StreamGap, time.Second},
		{"PassiveQuiet", p.PassiveQuiet, 4 * time.Second},
		{"WaitHorizon", p.WaitHorizon, 10 * time.Second},
		{"MaxWindow", p.MaxWindow, time.Minute},
		{"MaxWaits", p.MaxWaits, 2},
		{"MaxEvents", p.MaxEvents, 250},
		{"MaxWindowBytes", p.MaxWindowBytes, 4 << 20},
		{"RecentCount", p.RecentCount, 8},
		{"SeenCount", p.SeenCount, 500},
		{"ActThreshold", p.ActThreshold, 0.0},
		{"len(RetryBackoff)", len(p.RetryBackoff), 3},
		{"MaxOutbox", p.MaxOutbox, 1000},
		{"MaxDeadLetters", p.MaxDeadLetters, 1000},
		{"MaxBacklog", p.MaxBacklog, 10_000},
		{"DeadLetterBackoffMax", p.DeadLetterBackoffMax, time.Minute},
		{"AccountGrace", p.AccountGrace, time.Hour},
		{"IdleExpiry", p.IdleExpiry, 30 * 24 * time.Hour},
		{"RecordVerdicts", p.RecordVerdicts, true},
		{"LogDecisions", p.LogDecisions, false},
		{"LogLetters", p.LogLetters, false},
	} {
		if row.got != row.want {
			t.Errorf("%s = %v, want %v", row.name, row.got, row.want)
		}
	}
}

// A negative count means none, where none is possible.
func TestNegativeCountsMeanNone(t *testing.T) {
	cfg := config()
	cfg.Settle.MaxWaits, cfg.RecentCount, cfg.SeenCount = -1, -1, -1
	p, err := cfg.Policy()
	if err != nil || p.MaxWaits != 0 || p.RecentCount != 0 || p.SeenCount != 0 {
		t.Errorf("Policy() = %+v, %v, want no waits, no verdicts and no memory", p, err)
	}
}

// budgeted is a judge that can read so much.
type budgeted struct {
	attend.JudgeFunc
	budget attend.Budget
}

func (b budgeted) Budget() attend.Budget { return b.budget }

// E20: the limit of a window is the judge's budget, by share; MaxWindowBytes
// overrides it.
func TestE20TheWindowBudget(t *testing.T) {
	budget := attend.Budget{ContextTokens: 11_000, ReservedTokens: 1000, BytesPerToken: 4}
	for _, row := range []struct {
		name  string
		set   func(*engine.Config)
		bytes int
	}{
		{"half by default", func(*engine.Config) {}, 20_000},
		{"another share", func(c *engine.Config) { c.WindowShare = 0.25 }, 10_000},
		{"overridden", func(c *engine.Config) { c.Settle.MaxWindowBytes = 777 }, 777},
		{"three bytes a token by default", func(c *engine.Config) {
			c.Judge = budgeted{c.Judge.Judge, attend.Budget{ContextTokens: 2000, ReservedTokens: -1}}
		}, 3000},
		{"no budget", func(c *engine.Config) { c.Judge = budgeted{c.Judge.Judge, attend.Budget{}} }, 4 << 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config()
			cfg.Judge = budgeted{cfg.Judge.Judge, budget}
			row.set(&cfg)
			p, err := cfg.Policy()
			if err != nil || p.MaxWindowBytes != row.bytes {
				t.Errorf("MaxWindowBytes = %d (%v), want %d", p.MaxWindowBytes, err, row.bytes)
			}
			e := newEngine(t, cfg)
			if _, err := e.Push(context.Background(), "repo", attend.Event{ID: "a", Name: "consequence.x"}); err != nil {
				t.Fatal(err)
			}
			s, err := e.State(context.Background(), "repo")
			if err != nil || s.Policy().MaxWindowBytes != row.bytes {
				t.Errorf("the scope's MaxWindowBytes = %d (%v), want %d", s.Policy().MaxWindowBytes, err, row.bytes)
			}
		})
	}
}

// LogOnly and LogLetters are known among other sinks and handlers, functions
// included, which can't be compared.
func TestLogOnlyIsKnown(t *testing.T) {
	cfg := config()
	cfg.Sink, cfg.DeadLetter = attend.LogOnly, attend.LogLetters
	if p, err := cfg.Policy(); err != nil || !p.LogDecisions || !p.LogLetters {
		t.Errorf("Policy() = %+v, %v, want both in the log", p, err)
	}
	f := attend.SinkFunc(func(context.Context, attend.Decision) error { return nil })
	cfg.Sink = attend.Routes{Interrupt: f, Queue: f, Note: f, Ask: f}
	cfg.DeadLetter = attend.LetterFunc(func(context.Context, attend.DeadLetter) error { return nil })
	if p, err := cfg.Policy(); err != nil || p.LogDecisions || p.LogLetters {
		t.Errorf("Policy() = %+v, %v, want neither", p, err)
	}
}
