package machine

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// policyWith is the default policy with one change.
func policyWith(change func(*Policy)) *Policy {
	p := DefaultPolicy()
	change(&p)
	return &p
}

func TestPolicyCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Policy)
		field  string // that the error names; empty: no error
	}{
		{"default", func(p *Policy) {}, ""},
		{"no durations at all", func(p *Policy) {
			for _, d := range p.durations() {
				*d = 0
			}
		}, ""},
		{"the smallest counts", func(p *Policy) {
			p.MaxWaits, p.RecentCount, p.SeenCount = 0, 0, 0
			p.MaxEvents, p.MaxWindowBytes, p.MaxOutbox, p.MaxDeadLetters, p.MaxBacklog, p.MaxLaneBytes = 1, 1, 1, 1, 1, 1
		}, ""},
		{"the biggest counts", func(p *Policy) {
			for _, n := range p.counts() {
				*n = 1 << 30
			}
		}, ""},
		{"a hundred years", func(p *Policy) { p.IdleExpiry = maxDuration }, ""},
		{"a threshold of 1", func(p *Policy) { p.ActThreshold = 1 }, ""},
		{"hardly a threshold", func(p *Policy) { p.ActThreshold = math.SmallestNonzeroFloat64 }, ""},
		{"no rungs", func(p *Policy) { p.RetryBackoff = nil }, ""},
		{"all rungs", func(p *Policy) { p.RetryBackoff = make([]time.Duration, maxRungs) }, ""},

		{"a negative duration", func(p *Policy) { p.ClosingGrace = -time.Millisecond }, "ClosingGrace"},
		{"a part of a millisecond", func(p *Policy) { p.StreamGap = time.Second + time.Microsecond }, "StreamGap"},
		{"more than a hundred years", func(p *Policy) { p.PassiveQuiet = maxDuration + time.Millisecond }, "PassiveQuiet"},
		{"a horizon in the past", func(p *Policy) { p.WaitHorizon = -time.Second }, "WaitHorizon"},
		{"a window of less than nothing", func(p *Policy) { p.MaxWindow = -1 }, "MaxWindow"},
		{"letters in the past", func(p *Policy) { p.DeadLetterBackoffMax = -time.Minute }, "DeadLetterBackoffMax"},
		{"grace in the past", func(p *Policy) { p.AccountGrace = math.MinInt64 }, "AccountGrace"},
		{"expired before it began", func(p *Policy) { p.IdleExpiry = -time.Hour }, "IdleExpiry"},

		{"negative waits", func(p *Policy) { p.MaxWaits = -1 }, "MaxWaits"},
		{"windows of no event", func(p *Policy) { p.MaxEvents = 0 }, "MaxEvents"},
		{"windows of no byte", func(p *Policy) { p.MaxWindowBytes = 0 }, "MaxWindowBytes"},
		{"negative verdicts", func(p *Policy) { p.RecentCount = -1 }, "RecentCount"},
		{"negative memory", func(p *Policy) { p.SeenCount = math.MinInt }, "SeenCount"},
		{"no lane", func(p *Policy) { p.MaxOutbox = 0 }, "MaxOutbox"},
		{"no lane of letters", func(p *Policy) { p.MaxDeadLetters = 0 }, "MaxDeadLetters"},
		{"no backlog", func(p *Policy) { p.MaxBacklog = -7 }, "MaxBacklog"},
		{"a lane of no byte", func(p *Policy) { p.MaxLaneBytes = 0 }, "MaxLaneBytes"},
		{"too many events", func(p *Policy) { p.MaxEvents = 1<<30 + 1 }, "MaxEvents"},

		{"a threshold above 1", func(p *Policy) { p.ActThreshold = 1.01 }, "ActThreshold"},
		{"a threshold below 0", func(p *Policy) { p.ActThreshold = -0.1 }, "ActThreshold"},
		{"a threshold that is no number", func(p *Policy) { p.ActThreshold = math.NaN() }, "ActThreshold"},
		{"too many rungs", func(p *Policy) { p.RetryBackoff = make([]time.Duration, maxRungs+1) }, "RetryBackoff"},
		{"a negative rung", func(p *Policy) { p.RetryBackoff[2] = -1 }, "RetryBackoff"},
	} {
		p := policyWith(test.change)
		err := p.Check()
		if test.field == "" {
			if err != nil {
				t.Errorf("%s: Check() = %v, want nil", test.name, err)
			}
			continue
		}
		invalid, ok := errors.AsType[*attend.InvalidError](err)
		if !ok || invalid.Field != test.field || !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("%s: Check() = %v, want an ErrInvalid of %s", test.name, err, test.field)
		}
		// A policy that is refused begins no scope, and changes none.
		if s, e := Step(State{}, Configure{At: traceBegin, Scope: traceScope, Policy: p}); e.Changed || s.Scope() != "" {
			t.Errorf("%s: Step(Configure) began a scope", test.name)
		}
		s, _ := Step(State{}, Configure{At: traceBegin, Scope: traceScope, Policy: policyWith(func(*Policy) {})})
		if _, e := Step(s, Configure{At: traceBegin, Scope: traceScope, Policy: p}); e.Changed {
			t.Errorf("%s: Step(Configure) changed a scope", test.name)
		}
	}
}

// Every field decides, so every field is compared and stored. A field that is
// added and forgotten in one of them fails here.
func TestPolicyFields(t *testing.T) {
	base := policyWith(func(*Policy) {})
	encode := func(p *Policy) []byte {
		return EncodeInput(Configure{At: traceBegin, Scope: traceScope, Policy: p})
	}
	for i := range reflect.TypeFor[Policy]().NumField() {
		name := reflect.TypeFor[Policy]().Field(i).Name
		p := policyWith(func(p *Policy) {
			switch f := reflect.ValueOf(p).Elem().Field(i).Addr().Interface().(type) {
			case *time.Duration:
				*f += time.Millisecond
			case *int:
				*f++
			case *float64:
				*f += 0.5
			case *bool:
				*f = !*f
			case *[]time.Duration:
				*f = append(slices.Clone(*f), time.Hour)
			default:
				t.Fatalf("%s: a type that this test does not know", name)
			}
		})
		if base.Equal(p) || p.Equal(base) {
			t.Errorf("Equal does not look at %s", name)
		}
		if bytes.Equal(encode(p), encode(base)) {
			t.Errorf("%s is not encoded", name)
		}
		in, err := DecodeInput(encode(p))
		if err != nil {
			t.Errorf("%s: DecodeInput: %v", name, err)
			continue
		}
		if got := in.(Configure).Policy; !got.Equal(p) || !reflect.DeepEqual(got, p) {
			t.Errorf("%s: DecodeInput = %+v, want %+v", name, got, p)
		}
		wrong := policyWith(func(p *Policy) {
			switch f := reflect.ValueOf(p).Elem().Field(i).Addr().Interface().(type) {
			case *time.Duration:
				*f = -1
			case *int:
				*f = -1
			case *float64:
				*f = -1
			case *[]time.Duration:
				*f = []time.Duration{-1}
			}
		})
		if err := wrong.Check(); !wrong.Equal(base) && (err == nil || !strings.Contains(err.Error(), name)) {
			t.Errorf("Check() of a wrong %s = %v, want an error that names it", name, err)
		}
	}
	if !base.Equal(policyWith(func(*Policy) {})) {
		t.Error("Equal = false for two policies that are the same")
	}
}

// The defaults are those that the documentation gives.
func TestDefaultPolicy(t *testing.T) {
	const day = 24 * time.Hour
	want := Policy{
		ClosingGrace: 500 * time.Millisecond, StreamGap: time.Second, PassiveQuiet: 4 * time.Second,
		WaitHorizon: 10 * time.Second, MaxWaits: 2,
		MaxEvents: 250, MaxWindow: 60 * time.Second, MaxWindowBytes: 4 << 20,
		RetryBackoff: []time.Duration{time.Second, 4 * time.Second, 16 * time.Second},
		RecentCount:  8, SeenCount: 500,
		MaxOutbox: 1000, MaxDeadLetters: 1000, MaxBacklog: 10_000, MaxLaneBytes: 16 << 20,
		DeadLetterBackoffMax: 60 * time.Second, AccountGrace: time.Hour, IdleExpiry: 30 * day,
		RecordVerdicts: true,
	}
	got := DefaultPolicy()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("DefaultPolicy() = %+v, want %+v", got, want)
	}
	got.RetryBackoff[0] = 0
	if DefaultPolicy().RetryBackoff[0] == 0 {
		t.Error("two DefaultPolicy share their rungs")
	}
}
