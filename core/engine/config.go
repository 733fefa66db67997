package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// Config says what an engine works with. Five fields are required; any other
// zero field means the default that stands beside it. The engine keeps what a
// Config points to, and nobody may change it afterwards.
type Config struct {
	// Store holds all state. Required.
	Store attend.ScopeStore
	// Kind says which kind an event has. Required.
	Kind attend.KindFunc
	// Judge picks the routes. Required. An [attend.PureJudge] is asked inside
	// the commit of the input that settled the window, unless Facts or Capture
	// is set.
	Judge attend.Judge
	// Sink carries decisions out. Required; [attend.LogOnly] leaves them to the
	// log.
	Sink attend.Sink
	// DeadLetter takes what nobody could take. Required; [attend.LogLetters]
	// writes them to the log.
	DeadLetter attend.LetterHandler

	// Settle says when windows settle.
	Settle Settle
	// ActThreshold is in (0,1]: where a judgment has probabilities, the agent is
	// called exactly when p(interrupt)+p(ask) reaches it. 0: off.
	ActThreshold float64
	// WindowShare is the share of the judge's budget that a window may fill, in
	// (0,1]. Default 0.5.
	WindowShare float64

	// Guidance is told to the judge with each window. It may be empty.
	Guidance string
	// Criteria replaces the default criterion of each route that it names.
	Criteria map[attend.Route]string
	// Predicates are yes-or-no questions to the judge, by name.
	Predicates map[string]string
	// Facts returns live facts about a scope for its judge, as JSON. It is asked
	// anew at each call; an error or an answer after CaptureTimeout is traced,
	// and the judge is asked without. Nil: there are none.
	Facts func(ctx context.Context, scope attend.Scope) (json.RawMessage, error)
	// Capture returns images for the judge, like Facts.
	Capture func(ctx context.Context, scope attend.Scope) ([]attend.Image, error)

	JudgeTimeout    time.Duration // of one call, facts and images included; default 15 s
	DeliveryTimeout time.Duration // of one delivery or dead letter; default 10 s
	CaptureTimeout  time.Duration // of Facts and of Capture; default 500 ms
	// RetryBackoff is the pause after each failed attempt; its length is the
	// number of retries. Nil: 1 s, 4 s, 16 s. Empty, but not nil: none.
	RetryBackoff []time.Duration

	RecentCount          int           // verdicts told to the judge; default 8, negative: none
	SeenCount            int           // acts, and other events, whose ids are remembered; default 500, negative: none
	MaxOutbox            int           // decisions in a scope's lane; default 1000
	MaxDeadLetters       int           // dead letters in a scope's lane; default 1000
	MaxBacklog           int           // acts that wait for a judge; default 10,000
	DeadLetterBackoffMax time.Duration // default 60 s
	AccountGrace         time.Duration // how long a failing judge account holds a window; default 1 h
	IdleExpiry           time.Duration // after which an idle scope forgets itself; default 30 days

	SweepInterval time.Duration // between looks at overdue scopes; default 1 s
	SweepGrace    time.Duration // how long a scope is left to the process that has it; default 2 s
	SweepLimit    int           // overdue scopes a page; default 100
	ShutdownGrace time.Duration // for what is in flight when Run ends; default 10 s
	MaxCalls      int           // judge calls at a time, and as many deliveries; default 64
	ResidentBytes int           // states of idle scopes kept in memory; default 64 MiB

	// OmitVerdicts leaves out the log rows that explain what woke nobody.
	OmitVerdicts bool

	// Logger gets what needs an operator. Nil: slog.Default.
	Logger *slog.Logger
	// Observer sees every step. It is called from many goroutines at once, for
	// one scope in order. Commits wait for it, so it has to return at once and
	// may call no method of the engine; one that has more to do hands its traces
	// to a goroutine of its own. Nil: nobody looks.
	Observer func(attend.Trace)
}

// Settle says when a window settles. A zero field means its default.
type Settle struct {
	ClosingGrace   time.Duration // after the last closing event; default 500 ms
	StreamGap      time.Duration // after the last continuous event; default 1 s
	PassiveQuiet   time.Duration // after the last passive event; default 4 s
	WaitHorizon    time.Duration // how long a window is held; default 10 s
	MaxWindow      time.Duration // age of its first act; default 60 s
	MaxWaits       int           // how often a window may be held; default 2, negative: never
	MaxEvents      int           // default 250
	MaxWindowBytes int           // default: from the judge's budget, else 4 MiB
}

// Policy returns the settings that decide, with every default filled in. An
// error is attend.ErrInvalid and names the option.
func (c *Config) Policy() (*machine.Policy, error) {
	p := machine.DefaultPolicy()
	for _, d := range []struct {
		to *time.Duration
		v  time.Duration
	}{
		{&p.ClosingGrace, c.Settle.ClosingGrace},
		{&p.StreamGap, c.Settle.StreamGap},
		{&p.PassiveQuiet, c.Settle.PassiveQuiet},
		{&p.WaitHorizon, c.Settle.WaitHorizon},
		{&p.MaxWindow, c.Settle.MaxWindow},
		{&p.DeadLetterBackoffMax, c.DeadLetterBackoffMax},
		{&p.AccountGrace, c.AccountGrace},
		{&p.IdleExpiry, c.IdleExpiry},
	} {
		if d.v != 0 {
			*d.to = d.v
		}
	}
	for _, n := range []struct {
		to   *int
		v    int
		none bool // a negative count means none
	}{
		{&p.MaxWaits, c.Settle.MaxWaits, true},
		{&p.MaxEvents, c.Settle.MaxEvents, false},
		{&p.MaxWindowBytes, c.windowBytes(), false},
		{&p.RecentCount, c.RecentCount, true},
		{&p.SeenCount, c.SeenCount, true},
		{&p.MaxOutbox, c.MaxOutbox, false},
		{&p.MaxDeadLetters, c.MaxDeadLetters, false},
		{&p.MaxBacklog, c.MaxBacklog, false},
	} {
		switch {
		case n.v < 0 && n.none:
			*n.to = 0
		case n.v != 0:
			*n.to = n.v
		}
	}
	if c.RetryBackoff != nil {
		p.RetryBackoff = slices.Clone(c.RetryBackoff)
	}
	p.ActThreshold = c.ActThreshold
	p.LogDecisions = c.Sink == attend.LogOnly
	p.LogLetters = c.DeadLetter == attend.LogLetters
	p.RecordVerdicts = !c.OmitVerdicts
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &p, nil
}

// windowBytes is what a window may fill: what Settle says, else the judge's
// budget, else 0 for the default.
func (c *Config) windowBytes() int {
	if c.Settle.MaxWindowBytes != 0 {
		return c.Settle.MaxWindowBytes
	}
	if b, ok := c.Judge.(attend.Budgeter); ok {
		return b.Budget().WindowBytes(cmp.Or(c.WindowShare, 0.5))
	}
	return 0
}

const longest = 365 * 24 * time.Hour

// hollow reports whether v is a nil function in an interface.
func hollow(v any) bool {
	switch f := v.(type) {
	case attend.JudgeFunc:
		return f == nil
	case attend.SinkFunc:
		return f == nil
	case attend.LetterFunc:
		return f == nil
	default:
		return v == nil
	}
}

// withDefaults checks c and fills in what it leaves out, but for the policy's
// part.
func (c Config) withDefaults() (Config, error) {
	for _, r := range []struct {
		name    string
		missing bool
	}{
		{"Store", c.Store == nil}, {"Kind", c.Kind == nil}, {"Judge", hollow(c.Judge)},
		{"Sink", hollow(c.Sink)}, {"DeadLetter", hollow(c.DeadLetter)},
	} {
		if r.missing {
			return c, &attend.InvalidError{Field: r.name, Want: "a value, it is required"}
		}
	}
	if k, ok := c.Sink.(interface{ Check() error }); ok {
		if err := k.Check(); err != nil {
			return c, err
		}
	}
	if c.WindowShare == 0 {
		c.WindowShare = 0.5
	}
	if !(c.WindowShare > 0 && c.WindowShare <= 1) {
		return c, &attend.InvalidError{Field: "WindowShare", Want: "a number in (0,1]"}
	}
	for _, d := range []struct {
		name string
		to   *time.Duration
		def  time.Duration
	}{
		{"JudgeTimeout", &c.JudgeTimeout, 15 * time.Second},
		{"DeliveryTimeout", &c.DeliveryTimeout, 10 * time.Second},
		{"CaptureTimeout", &c.CaptureTimeout, 500 * time.Millisecond},
		{"SweepInterval", &c.SweepInterval, time.Second},
		{"SweepGrace", &c.SweepGrace, 2 * time.Second},
		{"ShutdownGrace", &c.ShutdownGrace, 10 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
		if *d.to < time.Millisecond || *d.to > longest {
			return c, &attend.InvalidError{Field: d.name, Want: "a duration from 1 ms to 1 year"}
		}
	}
	for _, n := range []struct {
		name string
		to   *int
		def  int
	}{
		{"SweepLimit", &c.SweepLimit, 100}, {"MaxCalls", &c.MaxCalls, 64}, {"ResidentBytes", &c.ResidentBytes, 64 << 20},
	} {
		if *n.to < 0 {
			return c, &attend.InvalidError{Field: n.name, Want: "a positive count"}
		}
		if *n.to == 0 {
			*n.to = n.def
		}
	}
	criteria := attend.DefaultCriteria()
	for r := range c.Criteria {
		if !r.Valid() {
			return c, &attend.InvalidError{Field: "Criteria", Want: "one of the six routes"}
		}
	}
	maps.Copy(criteria, c.Criteria)
	c.Criteria = criteria
	for name := range c.Predicates {
		if len(name) == 0 || len(name) > 256 {
			return c, &attend.InvalidError{Field: "Predicates", Want: "names of 1 to 256 bytes"}
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}
