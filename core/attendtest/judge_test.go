package attendtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
)

var _ attend.Judge = (*attendtest.Judge)(nil)

func input(id string) attend.JudgeInput {
	return attend.JudgeInput{Window: attend.Window{Scope: "ops/db", Events: []attend.Event{{ID: id, Name: "n"}}}}
}

func TestJudgeWorksDownItsScript(t *testing.T) {
	full := attendtest.Answer{
		Route:         attend.RouteAsk,
		Probabilities: map[attend.Route]float64{attend.RouteAsk: 1},
		Predicates:    map[string]float64{"urgent": 0.5},
		Confidence:    0.25,
	}
	judge := &attendtest.Judge{Script: []attendtest.Answer{
		{Route: attend.RouteSkip},
		attendtest.Fail(),
		full,
	}}
	want := attend.Judgment{
		Route:         attend.RouteAsk,
		Probabilities: map[attend.Route]float64{attend.RouteAsk: 1},
		Predicates:    map[string]float64{"urgent": 0.5},
		Confidence:    0.25,
	}
	for i, test := range []struct {
		want attend.Judgment
		err  error
	}{
		{attend.Judgment{Route: attend.RouteSkip}, nil},
		{attend.Judgment{}, attendtest.ErrScripted},
		{want, nil},
		{want, nil}, // it stays on the last
	} {
		got, err := judge.Judge(t.Context(), input("1"))
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("call %d: Judge = %+v, %v, want %+v, %v", i, got, err, test.want, test.err)
		}
		if got.Predicates != nil { // the caller's own
			got.Predicates["urgent"], got.Probabilities[attend.RouteAsk] = 0, 0
		}
	}
	if n := len(judge.Calls()); n != 4 {
		t.Errorf("Calls() has %d calls, want 4", n)
	}
}

func TestZeroJudge(t *testing.T) {
	var judge attendtest.Judge
	if calls := judge.Calls(); len(calls) != 0 {
		t.Errorf("Calls() = %v, want none", calls)
	}
	for range 2 {
		got, err := judge.Judge(t.Context(), input("1"))
		if err != nil || !reflect.DeepEqual(got, attend.Judgment{Route: attend.RouteQueue}) {
			t.Errorf("Judge = %+v, %v, want queue", got, err)
		}
	}
}

func TestJudgeFailures(t *testing.T) {
	own := errors.New("down")
	for _, test := range []struct {
		name               string
		answer             attendtest.Answer
		is                 error
		permanent, account bool
		after              time.Duration
	}{
		{"Fail", attendtest.Fail(), attendtest.ErrScripted, false, false, 0},
		{"FailPermanently", attendtest.FailPermanently(), attendtest.ErrScripted, true, false, 0},
		{"FailAccount", attendtest.FailAccount(), attendtest.ErrScripted, true, true, 0},
		{"RetryAfter", attendtest.RetryAfter(20 * time.Second), attendtest.ErrScripted, false, false, 20 * time.Second},
		{"an error of the test's own", attendtest.Answer{Route: attend.RouteQueue, Err: own}, own, false, false, 0},
	} {
		judge := &attendtest.Judge{Script: []attendtest.Answer{test.answer}}
		got, err := judge.Judge(t.Context(), input("1"))
		if !errors.Is(err, test.is) || got.Route != "" {
			t.Errorf("%s: Judge = %+v, %v, want %v", test.name, got, err, test.is)
		}
		permanent, ok := errors.AsType[*attend.PermanentError](err)
		if ok != test.permanent || ok && permanent.Account != test.account {
			t.Errorf("%s: Judge = %v, permanent %v, want %v, account %v", test.name, err, ok, test.permanent, test.account)
		}
		var after time.Duration
		if e, ok := errors.AsType[*attend.RetryAfterError](err); ok {
			after = e.After
		}
		if after != test.after {
			t.Errorf("%s: retry after %v, want %v", test.name, after, test.after)
		}
	}
}

func TestJudgeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge := &attendtest.Judge{Script: []attendtest.Answer{attendtest.Hang()}}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		start := time.Now()
		got, err := judge.Judge(ctx, input("1"))
		if !errors.Is(err, context.DeadlineExceeded) || got.Route != "" {
			t.Errorf("Judge = %+v, %v, want the context's error", got, err)
		}
		if d := time.Since(start); d != 15*time.Second {
			t.Errorf("Judge took %v, want 15s", d)
		}
	})
}

func TestJudgeHoldsAnAnswerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		judge := &attendtest.Judge{Script: []attendtest.Answer{{Route: attend.RouteNote, Until: until}}}
		answered := make(chan attend.Judgment, 1)
		go func() {
			got, _ := judge.Judge(t.Context(), input("1"))
			answered <- got
		}()
		synctest.Wait()
		if n := len(judge.Calls()); n != 1 || len(answered) != 0 {
			t.Errorf("%d calls and %d answers, want one call without an answer", n, len(answered))
		}
		close(until)
		synctest.Wait()
		if len(answered) != 1 {
			t.Fatal("no answer, want one")
		}
		if got := <-answered; got.Route != attend.RouteNote {
			t.Errorf("Judge = %+v, want note", got)
		}

		// A channel that is open for good: the answer comes though ctx has ended.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 {
			if got, err := judge.Judge(ctx, input("1")); err != nil || got.Route != attend.RouteNote {
				t.Fatalf("Judge = %+v, %v, want note", got, err)
			}
		}
		judge = &attendtest.Judge{Script: []attendtest.Answer{{Route: attend.RouteNote, Until: make(chan struct{})}}}
		if got, err := judge.Judge(ctx, input("1")); !errors.Is(err, context.Canceled) || got.Route != "" {
			t.Errorf("Judge = %+v, %v, want the context's error", got, err)
		}
	})
}

func TestJudgeCallsAreCopies(t *testing.T) {
	whole := func() attend.JudgeInput {
		return attend.JudgeInput{
			Window: attend.Window{
				Scope:  "ops/db",
				Events: []attend.Event{{ID: "1", Name: "n", Data: json.RawMessage(`[1]`)}},
			},
			Routes:     []attend.Route{attend.RouteQueue},
			Criteria:   map[attend.Route]string{attend.RouteQueue: "later"},
			Guidance:   "be quiet",
			Predicates: map[string]string{"urgent": "is it?"},
			Facts:      json.RawMessage(`{}`),
			Images:     []attend.Image{{Type: "image/png", Data: []byte("png")}},
			Recent: []attend.Verdict{{ID: "2", Judgment: attend.Judgment{
				Probabilities: map[attend.Route]float64{attend.RouteQueue: 1},
				Predicates:    map[string]float64{"urgent": 1},
			}}},
		}
	}
	spoil := func(in attend.JudgeInput) {
		in.Window.Events[0].Data[1] = '2'
		in.Window.Events[0].ID = "spoilt"
		in.Routes[0] = "spoilt"
		in.Criteria[attend.RouteQueue] = "spoilt"
		in.Predicates["urgent"] = "spoilt"
		in.Facts[0] = '['
		in.Images[0].Data[0] = 'x'
		in.Recent[0].Probabilities[attend.RouteQueue] = 0
		in.Recent[0].Predicates["urgent"] = 0
		in.Recent[0].ID = "spoilt"
	}
	var judge attendtest.Judge
	in := whole()
	judge.Judge(t.Context(), in)
	spoil(in)
	judge.Judge(t.Context(), attend.JudgeInput{})
	for range 2 {
		got := judge.Calls()
		if want := []attend.JudgeInput{whole(), {}}; !reflect.DeepEqual(got, want) {
			t.Errorf("Calls() = %+v, want %+v", got, want)
		}
		spoil(got[0])
	}
}

func TestJudgeFromManyGoroutines(t *testing.T) {
	judge := &attendtest.Judge{Script: []attendtest.Answer{
		{Route: attend.RouteSkip}, {Route: attend.RouteNote}, {Route: attend.RouteQueue},
	}}
	var mu sync.Mutex
	got := make(map[attend.Route]int)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			j, _ := judge.Judge(t.Context(), input("1"))
			judge.Calls()
			mu.Lock()
			defer mu.Unlock()
			got[j.Route]++
		})
	}
	wg.Wait()
	want := map[attend.Route]int{attend.RouteSkip: 1, attend.RouteNote: 1, attend.RouteQueue: 48}
	if !reflect.DeepEqual(got, want) || len(judge.Calls()) != 50 {
		t.Errorf("answers %v to %d calls, want %v", got, len(judge.Calls()), want)
	}
}
