package machine

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// BenchmarkArrive is one event that arrives at a window of a given length, in a
// scope whose memory of seen ids is full. Beside it stands the bare limit: the
// same input encoded, and its id looked up in a map and put there.
func BenchmarkArrive(b *testing.B) {
	at := time.UnixMilli(1_767_225_600_000)
	event := func(i int) attend.Event {
		e, err := attend.Event{
			ID: "event-" + strconv.Itoa(i), At: at, Name: "build.log",
			Data: []byte(`{"repository":"ops/db","step":"compile","exit":0,"line":"go: downloading golang.org/x/text v0.30.0"}`),
			Text: "compile: go: downloading golang.org/x/text v0.30.0",
		}.Clean()
		if err != nil {
			b.Fatal(err)
		}
		e.Kind = attend.KindClosing
		return e
	}
	arrive := func(i int) Arrive {
		return Arrive{At: at, Writer: 1, Number: uint64(i + 1), Events: []attend.Event{event(i)}}
	}
	for _, n := range []int{1, 50, 250} {
		b.Run("window="+strconv.Itoa(n), func(b *testing.B) {
			p := DefaultPolicy()
			p.MaxEvents = 1000 // so that the window stays open at 250
			s, _ := Step(State{}, Configure{At: at, Scope: "ops/db", Policy: &p})
			for i := range 1000 {
				s, _ = Step(s, arrive(i))
			}
			s, _ = Step(s, Flush{At: at})
			s, eff := Step(s, Claim{At: at, Num: s.Work(at).Judge, Owner: 1, Until: at.Add(time.Minute)})
			s, _ = Step(s, Judged{At: at, Num: eff.Call.Num, Judgment: attend.Judgment{Route: attend.RouteSkip}})
			for i := range n - 1 {
				s, _ = Step(s, arrive(2000+i))
			}
			if got := len(s.Window().Events); got != n-1 {
				b.Fatalf("the window holds %d events, want %d", got, n-1)
			}
			var in Input = arrive(9999)
			b.ReportAllocs()
			for b.Loop() {
				if _, eff := Step(s, in); eff.Fresh != 1 {
					b.Fatal("not taken in")
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		in := arrive(9999)
		seen := make(map[string]int)
		b.ReportAllocs()
		for b.Loop() {
			seen[in.Events[0].ID] = len(EncodeInput(in))
		}
	})
}

// BenchmarkCodec is a state with a window of 50 events and full memories.
func BenchmarkCodec(b *testing.B) {
	at := time.UnixMilli(1_767_225_600_000)
	p := DefaultPolicy()
	s, _ := Step(State{}, Configure{At: at, Scope: "ops/db", Policy: &p})
	for i := range 1050 {
		if i == 1000 {
			s, _ = Step(s, Flush{At: at})
			n := s.Work(at).Judge
			for n != 0 {
				s, _ = Step(s, Claim{At: at, Num: n, Owner: 1, Until: at.Add(time.Minute)})
				s, _ = Step(s, Judged{At: at, Num: n, Judgment: attend.Judgment{Route: attend.RouteSkip}})
				n = s.Work(at).Judge
			}
		}
		s, _ = Step(s, Arrive{At: at, Events: []attend.Event{{
			ID: fmt.Sprintf("event-%d", i), At: at, Name: "build.log", Data: []byte(`{"exit":0}`), Kind: attend.KindConsequence,
		}, {
			ID: fmt.Sprintf("act-%d", i), At: at, Name: "build.done", Data: []byte(`{"exit":0}`), Kind: attend.KindClosing,
		}}})
	}
	bytes := EncodeState(s)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(bytes)))
		for b.Loop() {
			EncodeState(s)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(bytes)))
		for b.Loop() {
			if _, err := DecodeState(bytes); err != nil {
				b.Fatal(err)
			}
		}
	})
}
