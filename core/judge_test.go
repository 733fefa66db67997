package attend_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestRuleJudge(t *testing.T) {
	for _, reason := range attend.Reasons() {
		want := attend.RouteQueue
		if reason == attend.ReasonFlush || reason == attend.ReasonForced {
			want = attend.RouteInterrupt
		}
		in := attend.JudgeInput{Window: attend.Window{Reason: reason}, Routes: attend.AllRoutes()}
		got, err := attend.RuleJudge.Judge(t.Context(), in)
		if err != nil || !reflect.DeepEqual(got, attend.Judgment{Route: want}) {
			t.Errorf("RuleJudge of %q = %+v, %v, want %q alone", reason, got, err, want)
		}
	}
}

func TestJudgeFunc(t *testing.T) {
	fail := errors.New("down")
	var judge attend.Judge = attend.JudgeFunc(func(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
		return attend.Judgment{Route: in.Routes[0]}, errors.Join(fail, ctx.Err())
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := judge.Judge(ctx, attend.JudgeInput{Routes: []attend.Route{attend.RouteAsk}})
	if got.Route != attend.RouteAsk || !errors.Is(err, fail) || !errors.Is(err, context.Canceled) {
		t.Errorf("Judge = %+v, %v, want what the function answers", got, err)
	}
}

func TestWindowBytes(t *testing.T) {
	for _, test := range []struct {
		name   string
		budget attend.Budget
		share  float64
		want   int
	}{
		{"no budget", attend.Budget{}, 0.5, 0},
		{"no budget, whatever else", attend.Budget{ReservedTokens: 4096, BytesPerToken: 4}, 0.5, 0},
		{"a negative one is none", attend.Budget{ContextTokens: -1}, 0.5, 0},
		{"three bytes a token, and half reserved", attend.Budget{ContextTokens: 1000}, 0.5, 750},
		{"4,096 reserved", attend.Budget{ContextTokens: 32_000}, 0.5, 41_856},
		{"nothing reserved", attend.Budget{ContextTokens: 1000, ReservedTokens: -1}, 0.5, 1500},
		{"reserved", attend.Budget{ContextTokens: 32_000, ReservedTokens: 4_096}, 0.5, 41_856},
		{"bytes given", attend.Budget{ContextTokens: 1000, ReservedTokens: 200, BytesPerToken: 2.5}, 0.5, 1000},
		{"all of it", attend.Budget{ContextTokens: 1000, ReservedTokens: -1}, 1, 3000},
		{"a fraction goes down", attend.Budget{ContextTokens: 3, ReservedTokens: -1, BytesPerToken: 1}, 0.5, 1},
		{"nothing left for it", attend.Budget{ContextTokens: 4096, ReservedTokens: 4096}, 0.5, 1},
		{"more reserved than there is", attend.Budget{ContextTokens: 1000, ReservedTokens: 4096}, 0.5, 1},
	} {
		if got := test.budget.WindowBytes(test.share); got != test.want {
			t.Errorf("%s: WindowBytes(%v) = %d, want %d", test.name, test.share, got, test.want)
		}
	}
}
