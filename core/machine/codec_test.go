package machine

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestInputsComeBack(t *testing.T) {
	tags := make(map[byte]bool)
	for name, in := range bytesInputs() {
		b := EncodeInput(in)
		tags[b[2]] = true
		got, err := DecodeInput(b)
		if err != nil {
			t.Errorf("%s: DecodeInput: %v", name, err)
			continue
		}
		if name == "judged_wrong" {
			continue
		}
		if !reflect.DeepEqual(got, in) {
			t.Errorf("%s: DecodeInput = %+v, want %+v", name, got, in)
		}
	}
	for tag := byte(tagConfigure); tag <= tagForget; tag++ {
		if !tags[tag] {
			t.Errorf("no input with tag %d", tag)
		}
	}
}

// A judgment that no state takes is stored as the failed attempt that it is:
// the same state comes of both, whatever was offered.
func TestWrongJudgmentIsStoredAsFailure(t *testing.T) {
	for _, test := range []struct {
		name string
		j    attend.Judgment
	}{
		{"no route", attend.Judgment{}},
		{"no such route", attend.Judgment{Route: "shout"}},
		{"not offered, and more", attend.Judgment{Route: attend.RouteWait, Confidence: 2}},
		{"no such route, and more", attend.Judgment{Route: "shout", Predicates: map[string]float64{"urgent": -1}}},
		{"a probability of no route", attend.Judgment{Route: attend.RouteSkip, Probabilities: map[attend.Route]float64{"shout": 0.5}}},
		{"a probability over 1", attend.Judgment{Route: attend.RouteSkip, Probabilities: map[attend.Route]float64{attend.RouteSkip: 1.5}}},
		{"not offered", attend.Judgment{Route: attend.RouteWait}},
	} {
		for _, kind := range []attend.Kind{attend.KindFlush, attend.KindClosing} {
			e := traceEvent("a")
			e.Kind = kind
			s, _ := Step(State{}, Configure{At: traceBegin, Scope: traceScope, Policy: policyWith(func(p *Policy) { p.ClosingGrace = 0 })})
			s, _ = Step(s, Arrive{At: traceBegin, Events: []attend.Event{e}})
			s, eff := Step(s, Claim{At: traceBegin, Num: s.Work(traceBegin).Judge, Owner: 1, Until: traceBegin.Add(1e9)})
			in := Judged{At: traceBegin, Num: eff.Call.Num, Attempt: eff.Call.Attempt, Judgment: test.j}
			want, wantEffects := Step(s, in)
			read, err := DecodeInput(EncodeInput(in))
			if err != nil {
				t.Errorf("%s: DecodeInput: %v", test.name, err)
				continue
			}
			got, effects := Step(s, read)
			if !bytes.Equal(EncodeState(got), EncodeState(want)) || !reflect.DeepEqual(effects, wantEffects) {
				t.Errorf("%s, %s: what is stored does\n%+v\nwant\n%+v", test.name, kind, effects, wantEffects)
			}
			if slot, ok := got.Slot(); kind == attend.KindFlush && (!ok || slot.Attempts != 1) {
				t.Errorf("%s: %d failed attempts, want 1", test.name, slot.Attempts)
			}
		}
	}
}

// What a newer release wrote is left alone, with an error that can be told from
// a broken one (E50).
func TestNewer(t *testing.T) {
	for name, v := range bytesValues(t) {
		for place, what := range []string{"encoding", "rules"} {
			b := slices.Clone(v.bytes)
			b[place]++
			s, err := DecodeState(b)
			if _, inputErr := DecodeInput(b); !errors.Is(err, attend.ErrNewer) || !errors.Is(inputErr, attend.ErrNewer) {
				t.Errorf("%s of a newer %s: DecodeState = %v, DecodeInput = %v, want ErrNewer", name, what, err, inputErr)
			}
			if errors.Is(err, attend.ErrCorrupt) {
				t.Errorf("%s of a newer %s: DecodeState = %v, which is ErrCorrupt, too", name, what, err)
			}
			if s.Scope() != "" {
				t.Errorf("%s of a newer %s: DecodeState gave a state of %q", name, what, s.Scope())
			}
			if s, err := Replay(attend.Record{Snapshot: b}); !errors.Is(err, attend.ErrNewer) || s.Scope() != "" {
				t.Errorf("%s of a newer %s: Replay of a snapshot = %v, want ErrNewer", name, what, err)
			}
			if s, err := Replay(attend.Record{Tail: [][]byte{EncodeInput(bytesInputs()["configure"]), b}}); !errors.Is(err, attend.ErrNewer) || s.Scope() != "" {
				t.Errorf("%s of a newer %s: Replay of a tail = %v, want ErrNewer", name, what, err)
			}
			b[place] = 0
			if _, err := DecodeState(b); !errors.Is(err, attend.ErrCorrupt) {
				t.Errorf("%s of %s 0: DecodeState = %v, want ErrCorrupt", name, what, err)
			}
		}
	}
}

// Bytes that were cut, or have others behind them, are an error wherever that
// is, and no state and no input.
func TestCorrupt(t *testing.T) {
	decode := func(state bool, b []byte) error {
		if state {
			s, err := DecodeState(b)
			if err != nil && s.Scope() != "" {
				t.Errorf("DecodeState gave a state of %q with its error", s.Scope())
			}
			return err
		}
		in, err := DecodeInput(b)
		if err != nil && in != nil {
			t.Errorf("DecodeInput gave %T with its error", in)
		}
		return err
	}
	for name, v := range bytesValues(t) {
		state := name[0] == 's'
		for n := range v.bytes {
			if n == 0 && state {
				continue // no bytes are the zero State
			}
			if err := decode(state, v.bytes[:n]); !errors.Is(err, attend.ErrCorrupt) {
				t.Errorf("%s cut after %d bytes: %v, want ErrCorrupt", name, n, err)
			}
		}
		if err := decode(state, append(slices.Clone(v.bytes), 0)); !errors.Is(err, attend.ErrCorrupt) {
			t.Errorf("%s with a byte behind it: %v, want ErrCorrupt", name, err)
		}
	}
	if _, err := Replay(attend.Record{Tail: [][]byte{{}}}); !errors.Is(err, attend.ErrCorrupt) {
		t.Errorf("Replay of an empty input = %v, want ErrCorrupt", err)
	}
	if s, err := Replay(attend.Record{}); err != nil || s.Scope() != "" {
		t.Errorf("Replay of no record = %q, %v, want the zero State", s.Scope(), err)
	}
}

// What was decoded keeps nothing of the bytes, which are the store's.
func TestDecodeKeepsNothing(t *testing.T) {
	for name, v := range bytesValues(t) {
		b := slices.Clone(v.bytes)
		if name[0] == 's' {
			s, err := DecodeState(b)
			clear(b)
			if err != nil || !bytes.Equal(EncodeState(s), v.bytes) {
				t.Errorf("%s has changed with its bytes, %v", name, err)
			}
			continue
		}
		in, err := DecodeInput(b)
		clear(b)
		if err != nil || !bytes.Equal(EncodeInput(in), v.bytes) {
			t.Errorf("%s has changed with its bytes, %v", name, err)
		}
	}
}
