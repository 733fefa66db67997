package main

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// No text of a recording or a judge moves what stands beside it, and no line is
// over its width.
func TestTextStaysInItsPlace(t *testing.T) {
	nasty := "a\nb\x1b[31m\u202e\u2028\r\t" + strings.Repeat("long ", 100)
	w := attend.Window{Scope: attend.Scope(nasty), Reason: attend.ReasonContinuous, Events: []attend.Event{
		{ID: nasty, Name: nasty, Text: nasty, Kind: attend.KindContinuous},
	}}
	for _, s := range []step{
		{Step: stepSettle, Scope: w.Scope, ID: "0123456789", Reason: attend.ReasonContinuous, Events: 250, Waits: 2},
		{Step: stepVerdict, Scope: w.Scope, Route: attend.RouteInterrupt, Confidence: 0.123456789,
			Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.123456789, attend.RouteAsk: 0.1}},
		{Step: stepRetry, Scope: w.Scope, Stage: attend.StageJudge, Message: nasty, Account: true},
		{Step: stepDrop, Scope: w.Scope, Why: attend.WhyStale, Events: 3, IDs: []string{nasty, nasty}},
		decisionStep(attend.Decision{Window: w, Judgment: attend.Judgment{Route: attend.RouteInterrupt}}),
		letterStep(attend.DeadLetter{Window: w, Stage: attend.StageJudge, Message: nasty, Attempts: 4}),
	} {
		var b bytes.Buffer
		p := &textPrinter{w: bufio.NewWriter(&b), day: "1970-01-01"}
		s.SinceMs = 86_399_999
		p.step(s)
		p.w.Flush()
		line, ok := strings.CutSuffix(b.String(), "\n")
		if !ok || strings.ContainsAny(line, "\n\r\t\x1b\u202e\u2028") || utf8.RuneCountInString(line) > width {
			t.Errorf("%s: %q has %d characters, want one plain line of %d at most", s.Step, line, utf8.RuneCountInString(line), width)
		}
	}
}

func TestHeadline(t *testing.T) {
	event := func(k attend.Kind) attend.Event { return attend.Event{Name: string(k), Kind: k} }
	for _, test := range []struct {
		events []attend.Event
		want   string
	}{
		{nil, ""},
		{[]attend.Event{event(attend.KindContext)}, ""},
		{[]attend.Event{event(attend.KindClosing), event(attend.KindConsequence), event(attend.KindContext)}, "closing"},
		{[]attend.Event{event(attend.KindClosing), event(attend.KindFlush), event(attend.KindConsequence)}, "flush"},
		{[]attend.Event{event(attend.KindConsequence), event(attend.KindContext)}, "consequence"},
	} {
		if got := headline(attend.Window{Events: test.events}); got != test.want {
			t.Errorf("headline(%v) = %q, want %q", test.events, got, test.want)
		}
	}
}

// A threshold that is read off the table acts on what it was made from.
func TestDecimal(t *testing.T) {
	for p, want := range map[float64]string{0: "0", 0.27 + 0.08: "0.35", 1: "1", 0.5: "0.5", 2.0 / 3: "0.666666667"} {
		if got := decimal(p); got != want {
			t.Errorf("decimal(%v) = %s, want %s", p, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		p := r.Float64()
		if q, err := strconv.ParseFloat(decimal(p), 64); err != nil || p < q-1e-9 {
			t.Fatalf("decimal(%v) = %v, %v, want no more than that, within 1e-9", p, q, err)
		}
	}
}

func TestCutAndHead(t *testing.T) {
	for _, test := range []struct {
		s         string
		cut, head string
	}{
		{"", "", ""}, {"ünö", "ünö", "ünö"}, {"abcd", "abcd", "abcd"}, {"äbcdë", "äbc…", "…cdë"},
	} {
		if got := cut(test.s, 4); got != test.cut {
			t.Errorf("cut(%q, 4) = %q, want %q", test.s, got, test.cut)
		}
		if got := head(test.s, 4); got != test.head {
			t.Errorf("head(%q, 4) = %q, want %q", test.s, got, test.head)
		}
	}
}

func TestShown(t *testing.T) {
	for n := range 200 {
		s := thresholds{Candidates: make([]candidate, n)}
		for i := range s.Candidates {
			s.Candidates[i].Threshold = float64(i+1) / 1000
		}
		for at := range n {
			s.Suggested = &s.Candidates[at].Threshold
			places := s.shown()
			has := false
			for i, p := range places {
				has = has || p == at
				if i > 0 && p <= places[i-1] {
					t.Fatalf("of %d candidates %v are shown, want them rising", n, places)
				}
			}
			if !has || places[0] != 0 || places[len(places)-1] != n-1 || len(places) > shownCandidates+1 || n <= shownCandidates && len(places) != n {
				t.Fatalf("of %d candidates %v are shown, want the ends, the %d-th and %d at most", n, places, at, shownCandidates+1)
			}
		}
	}
}
