package machine

import (
	"slices"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Policy is the settings that decide. They are part of the state (E48), so
// that a replay needs nothing else. A Policy has no defaults: [DefaultPolicy]
// is one, and package engine fills in the rest. Durations count in whole
// milliseconds.
type Policy struct {
	ClosingGrace time.Duration // from the last closing event to the settle
	StreamGap    time.Duration // from the last continuous event
	PassiveQuiet time.Duration // from the last passive event
	WaitHorizon  time.Duration // from a verdict to wait until the window is judged again
	MaxWindow    time.Duration // age at which the first act settles its window

	MaxWaits       int // verdicts to wait that one window may get
	MaxEvents      int // in a window, at least 1
	MaxWindowBytes int // in a window, as Event.Size counts, at least 1
	RecentCount    int // verdicts a scope remembers
	SeenCount      int // acts, and as many other events, that it remembers

	ActThreshold float64         // 0: off
	RetryBackoff []time.Duration // its length is the retry budget

	MaxOutbox      int // decisions in the lane
	MaxDeadLetters int // letters in the lane
	MaxBacklog     int // acts waiting for the slot
	MaxLaneBytes   int // in each lane and in the open window

	DeadLetterBackoffMax time.Duration
	AccountGrace         time.Duration // how long an account failure keeps a window in its slot
	IdleExpiry           time.Duration // 0: never

	LogDecisions   bool // decisions are delivered by the log alone
	LogLetters     bool // dead letters are written to the log
	RecordVerdicts bool // marks are written to the log
}

// MaxRetryAfter is how much of an error's retry-after counts, and the longest
// backoff of an account failure.
const MaxRetryAfter = 60 * time.Second

// DefaultPolicy returns the documented defaults, with a slice of the caller's
// own.
func DefaultPolicy() Policy {
	return Policy{
		ClosingGrace: 500 * time.Millisecond,
		StreamGap:    time.Second,
		PassiveQuiet: 4 * time.Second,
		WaitHorizon:  10 * time.Second,
		MaxWindow:    time.Minute,

		MaxWaits:       2,
		MaxEvents:      250,
		MaxWindowBytes: 4 << 20,
		RecentCount:    8,
		SeenCount:      500,

		RetryBackoff: []time.Duration{time.Second, 4 * time.Second, 16 * time.Second},

		MaxOutbox:      1000,
		MaxDeadLetters: 1000,
		MaxBacklog:     10_000,
		MaxLaneBytes:   16 << 20,

		DeadLetterBackoffMax: time.Minute,
		AccountGrace:         time.Hour,
		IdleExpiry:           30 * 24 * time.Hour,
		RecordVerdicts:       true,
	}
}

// Equal reports whether p and q decide alike.
func (p *Policy) Equal(q *Policy) bool {
	if p == q {
		return true
	}
	return slices.Equal(p.RetryBackoff, q.RetryBackoff) && p.scalars() == q.scalars()
}

// durations and counts are the settings of one type, in the order in which they
// are encoded.
func (p *Policy) durations() [8]*time.Duration {
	return [...]*time.Duration{
		&p.ClosingGrace, &p.StreamGap, &p.PassiveQuiet, &p.WaitHorizon, &p.MaxWindow,
		&p.DeadLetterBackoffMax, &p.AccountGrace, &p.IdleExpiry,
	}
}

func (p *Policy) counts() [9]*int {
	return [...]*int{
		&p.MaxWaits, &p.MaxEvents, &p.MaxWindowBytes, &p.RecentCount, &p.SeenCount,
		&p.MaxOutbox, &p.MaxDeadLetters, &p.MaxBacklog, &p.MaxLaneBytes,
	}
}

// scalars is p without its slice, so that == works.
func (p *Policy) scalars() policyScalars {
	s := policyScalars{threshold: p.ActThreshold, flags: [3]bool{p.LogDecisions, p.LogLetters, p.RecordVerdicts}}
	for i, d := range p.durations() {
		s.durations[i] = *d
	}
	for i, n := range p.counts() {
		s.counts[i] = *n
	}
	return s
}

type policyScalars struct {
	durations [8]time.Duration
	counts    [9]int
	threshold float64
	flags     [3]bool
}

// maxRungs bounds RetryBackoff, so that an encoded policy stays small.
const maxRungs = 32

// Check returns an error that is attend.ErrInvalid and names the first setting
// that is out of range, or nil.
func (p *Policy) Check() error {
	s := p.scalars()
	for i, name := range [...]string{"ClosingGrace", "StreamGap", "PassiveQuiet", "WaitHorizon", "MaxWindow", "DeadLetterBackoffMax", "AccountGrace", "IdleExpiry"} {
		if err := checkDuration(name, s.durations[i]); err != nil {
			return err
		}
	}
	for i, name := range [...]string{"MaxWaits", "MaxEvents", "MaxWindowBytes", "RecentCount", "SeenCount", "MaxOutbox", "MaxDeadLetters", "MaxBacklog", "MaxLaneBytes"} {
		low := 1
		if name == "MaxWaits" || name == "RecentCount" || name == "SeenCount" {
			low = 0
		}
		if n := s.counts[i]; n < low || n > 1<<30 {
			return &attend.InvalidError{Field: name, Want: "a count from " + strconv.Itoa(low) + " to 2^30"}
		}
	}
	if !(p.ActThreshold >= 0 && p.ActThreshold <= 1) {
		return &attend.InvalidError{Field: "ActThreshold", Want: "a number in (0,1], or 0 for off"}
	}
	if len(p.RetryBackoff) > maxRungs {
		return &attend.InvalidError{Field: "RetryBackoff", Want: "at most 32 rungs"}
	}
	for _, d := range p.RetryBackoff {
		if err := checkDuration("RetryBackoff", d); err != nil {
			return err
		}
	}
	return nil
}

const maxDuration = 100 * 365 * 24 * time.Hour

func checkDuration(name string, d time.Duration) error {
	if d < 0 || d > maxDuration || d%time.Millisecond != 0 {
		return &attend.InvalidError{Field: name, Want: "whole milliseconds, from 0 to 100 years"}
	}
	return nil
}

// rung is the pause after the n-th failed attempt, from 1, and whether another
// attempt follows it.
func (p *Policy) rung(n int) (pause time.Duration, again bool) {
	if n > len(p.RetryBackoff) {
		return 0, false
	}
	return p.RetryBackoff[n-1], true
}

// endless is the pause after the n-th failure, from 1, of work that is never
// given up: the rungs, and then doubling up to limit. It is never 0, or a claim
// that is applied twice would find the work free again.
func (p *Policy) endless(n int, limit time.Duration) time.Duration {
	limit = max(limit, time.Millisecond)
	if n <= len(p.RetryBackoff) {
		return max(min(p.RetryBackoff[n-1], limit), time.Millisecond)
	}
	pause := time.Second
	if k := len(p.RetryBackoff); k > 0 {
		pause = max(p.RetryBackoff[k-1], time.Millisecond)
	}
	for i := len(p.RetryBackoff); i < n && pause < limit; i++ {
		pause *= 2
	}
	return min(pause, limit)
}
