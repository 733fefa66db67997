package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
)

// moments are when a judge was asked, and how long each call lasted.
type moments struct {
	attend.Judge
	mu    sync.Mutex
	begun time.Time
	at    []time.Duration
	took  []time.Duration
}

func timed(j attend.Judge) *moments { return &moments{Judge: j, begun: time.Now()} }

func (m *moments) ask(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	at := time.Now()
	m.mu.Lock()
	m.at = append(m.at, at.Sub(m.begun))
	m.mu.Unlock()
	v, err := m.Judge.Judge(ctx, in)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.took = append(m.took, time.Since(at))
	return v, err
}

func (m *moments) judge() attend.Judge { return attend.JudgeFunc(m.ask) }

func seconds(s ...float64) []time.Duration {
	var out []time.Duration
	for _, v := range s {
		out = append(out, time.Duration(v*float64(time.Second)))
	}
	return out
}

// E16: failures are retried after 1 s, 4 s and 16 s, exactly, and then the
// window is a dead letter of stage judge.
func TestE16RetriesAndThenADeadLetter(t *testing.T) {
	plain := attendtest.Fail()
	for _, row := range []struct {
		name     string
		answers  []attendtest.Answer
		backoff  []time.Duration // nil: the default
		at       []time.Duration
		attempts int // of the dead letter; 0: none
	}{
		{"four failures", []attendtest.Answer{plain}, nil, seconds(0, 1, 5, 21), 4},
		{"a success at last", []attendtest.Answer{plain, plain, plain, route(attend.RouteQueue)}, nil, seconds(0, 1, 5, 21), 0},
		{"other rungs", []attendtest.Answer{plain}, seconds(0.25, 2), seconds(0, 0.25, 2.25), 3},
		{"no retries", []attendtest.Answer{plain}, []time.Duration{}, seconds(0), 1},
		{"rungs of no pause", []attendtest.Answer{plain}, seconds(0, 0), seconds(0, 0, 0), 3},
		{"permanent", []attendtest.Answer{attendtest.FailPermanently()}, nil, seconds(0), 1},
		{"permanent at the second try", []attendtest.Answer{plain, attendtest.FailPermanently()}, nil, seconds(0, 1), 2},
		{"retry-after longer than the rung", []attendtest.Answer{attendtest.RetryAfter(3 * time.Second), route(attend.RouteQueue)}, nil, seconds(0, 3), 0},
		{"retry-after shorter than the rung", []attendtest.Answer{plain, attendtest.RetryAfter(3 * time.Second), route(attend.RouteQueue)}, nil, seconds(0, 1, 5), 0},
		{"retry-after of a day", []attendtest.Answer{attendtest.RetryAfter(24 * time.Hour), route(attend.RouteQueue)}, nil, seconds(0, 60), 0},
		{"a route that was not offered", []attendtest.Answer{route(attend.RouteWait), route(attend.RouteQueue)}, nil, seconds(0, 1), 0},
		{"no route", []attendtest.Answer{{}, route(attend.RouteQueue)}, nil, seconds(0, 1), 0},
		{"a probability over 1", []attendtest.Answer{{Route: attend.RouteQueue, Probabilities: map[attend.Route]float64{attend.RouteQueue: 1.5}}, route(attend.RouteQueue)}, nil, seconds(0, 1), 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := timed(&attendtest.Judge{Script: row.answers})
				cfg := config()
				cfg.Judge, cfg.RetryBackoff = m.judge(), row.backoff
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(3 * time.Minute)
				if !slices.Equal(m.at, row.at) {
					t.Errorf("judged after %v, want %v", m.at, row.at)
				}
				letters := f.letters.Taken()
				switch {
				case row.attempts == 0 && (len(letters) != 0 || len(f.sink.Delivered()) != 1):
					t.Errorf("dead letters %v and %d delivered, want none and one", letters, len(f.sink.Delivered()))
				case row.attempts > 0 && len(letters) != 1:
					t.Errorf("%d dead letters, want one", len(letters))
				case row.attempts > 0:
					l := letters[0]
					if l.Stage != attend.StageJudge || l.Attempts != row.attempts || l.Message != attendtest.ErrScripted.Error() || len(l.Window.Events) != 1 || l.Decision != nil {
						t.Errorf("dead letter %+v, want stage judge, %d attempts, the error, and the window", l, row.attempts)
					}
				}
			})
		})
	}
}

// E16: the budget of retries is new each time a window settles.
func TestE16TheBudgetIsNewEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config(fail(), fail(), fail(), route(attend.RouteWait), fail(), fail(), fail(), route(attend.RouteQueue)))
		push(t, f.Engine, "repo", "a", "closing.x")
		sleep(2 * time.Minute)
		if n := len(f.letters.Attempts()); n != 0 || len(f.sink.Delivered()) != 1 {
			t.Errorf("%d dead letters and %d delivered, want none and one", n, len(f.sink.Delivered()))
		}
		if n := len(f.judge.Calls()); n != 8 {
			t.Errorf("judged %d times, want 8", n)
		}
	})
}

// E15: after 15 s the call's context ends, which is a failed attempt.
func TestE15TheJudgesTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := timed(&attendtest.Judge{Script: []attendtest.Answer{attendtest.Hang(), route(attend.RouteQueue)}})
		cfg := config()
		cfg.Judge = m.judge()
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Minute)
		if !slices.Equal(m.took, seconds(15, 0)) || !slices.Equal(m.at, seconds(0, 16)) {
			t.Errorf("calls at %v took %v, want one of 15s and the next after the first rung", m.at, m.took)
		}
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want 1", n)
		}
	})
}

// E15, E47: an answer after the timeout and within the lease counts; one after
// the lease meets a second attempt, and the first to come counts.
func TestE15AnAnswerAfterItsTimeout(t *testing.T) {
	for _, row := range []struct {
		name  string
		takes time.Duration
		calls int
	}{{"within the lease", 29 * time.Second, 1}, {"after the lease", 35 * time.Second, 2}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				cfg := config()
				cfg.Judge = attend.JudgeFunc(func(ctx context.Context, _ attend.JudgeInput) (attend.Judgment, error) {
					if calls.Add(1) == 1 {
						time.Sleep(row.takes)
						return attend.Judgment{Route: attend.RouteInterrupt}, nil
					}
					<-ctx.Done()
					return attend.Judgment{}, ctx.Err()
				})
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(2 * time.Minute)
				if got := f.sink.Delivered(); len(got) != 1 || got[0].Route != attend.RouteInterrupt || int(calls.Load()) != row.calls {
					t.Errorf("delivered %v after %d calls, want the late answer after %d", got, calls.Load(), row.calls)
				}
			})
		})
	}
}

// A judge that panics has failed an attempt; other scopes' work goes on.
func TestAJudgeThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		cfg := config()
		cfg.Judge = attend.JudgeFunc(func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			if in.Window.Scope == "bad" {
				calls++
				panic("secret of the window")
			}
			return attend.Judgment{Route: attend.RouteQueue}, nil
		})
		f := start(t, cfg)
		push(t, f.Engine, "bad", "a", "flush.x")
		push(t, f.Engine, "good", "a", "flush.x")
		sleep(time.Minute)
		got := f.letters.Taken()
		if len(got) != 1 || got[0].Attempts != 4 || calls != 4 || strings.Contains(got[0].Message, "secret") {
			t.Errorf("dead letters %+v after %d calls, want one after 4 that quotes nothing", got, calls)
		}
		if n := len(f.sink.Delivered()); n != 1 {
			t.Errorf("%d delivered, want the good scope's", n)
		}
	})
}

// E14: what a judge is told.
func TestE14WhatTheJudgeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(route(attend.RouteSkip), route(attend.RouteQueue))
		cfg.Guidance = "be kind"
		cfg.Criteria = map[attend.Route]string{attend.RouteNote: "when it can wait"}
		cfg.Predicates = map[string]string{"angry": "Is somebody angry?"}
		cfg.Facts = func(_ context.Context, scope attend.Scope) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"scope": scope})
		}
		cfg.Capture = func(context.Context, attend.Scope) ([]attend.Image, error) {
			return []attend.Image{{Type: "image/png", Data: []byte("png")}}, nil
		}
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Second)
		push(t, f.Engine, "repo", "b", "closing.x")
		sleep(time.Second)
		calls := f.judge.Calls()
		if len(calls) != 2 {
			t.Fatalf("judged %d times, want twice", len(calls))
		}
		in := calls[1]
		all := attend.AllRoutes()
		if !slices.Equal(in.Routes, all) || !slices.Equal(calls[0].Routes, all[:len(all)-1]) {
			t.Errorf("routes %v and %v, want wait offered to the second alone", calls[0].Routes, in.Routes)
		}
		criteria := attend.DefaultCriteria()
		criteria[attend.RouteNote] = "when it can wait"
		if !reflect.DeepEqual(in.Criteria, criteria) {
			t.Errorf("criteria %v, want %v", in.Criteria, criteria)
		}
		if _, ok := calls[0].Criteria[attend.RouteWait]; ok {
			t.Error("a criterion for wait, which is not offered")
		}
		if in.Guidance != "be kind" || !reflect.DeepEqual(in.Predicates, cfg.Predicates) || string(in.Facts) != `{"scope":"repo"}` || len(in.Images) != 1 {
			t.Errorf("told %+v, want guidance, predicates, facts and one image", in)
		}
		if len(in.Recent) != 1 || in.Recent[0].Route != attend.RouteSkip || in.Window.Scope != "repo" {
			t.Errorf("recent verdicts %v of %q, want the skip", in.Recent, in.Window.Scope)
		}
	})
}

// E14: facts and images that are slow, fail, panic or are no JSON are traced,
// and the call goes on without them, after 500 ms at most.
func TestE14FactsAndImagesNeverFailTheCall(t *testing.T) {
	slow := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	deaf := func(context.Context) error {
		time.Sleep(5 * time.Second)
		return nil
	}
	for _, row := range []struct {
		name   string
		facts  func(ctx context.Context, scope attend.Scope) (json.RawMessage, error)
		images func(ctx context.Context, scope attend.Scope) ([]attend.Image, error)
		after  time.Duration
		traced []string
	}{
		{"facts fail", func(context.Context, attend.Scope) (json.RawMessage, error) { return json.RawMessage("1"), errDown }, nil, 0, []string{"facts"}},
		{"facts panic", func(context.Context, attend.Scope) (json.RawMessage, error) { panic("no") }, nil, 0, []string{"facts"}},
		{"facts are no JSON", func(context.Context, attend.Scope) (json.RawMessage, error) { return json.RawMessage("{"), nil }, nil, 0, []string{"facts"}},
		{"facts are empty", func(context.Context, attend.Scope) (json.RawMessage, error) { return json.RawMessage{}, nil }, nil, 0, []string{"facts"}},
		{"no facts", func(context.Context, attend.Scope) (json.RawMessage, error) { return nil, nil }, nil, 0, nil},
		{"facts are slow", func(ctx context.Context, _ attend.Scope) (json.RawMessage, error) { return nil, slow(ctx) }, nil, 500 * time.Millisecond, []string{"facts"}},
		{"facts heed nothing", func(ctx context.Context, _ attend.Scope) (json.RawMessage, error) { return nil, deaf(ctx) }, nil, 500 * time.Millisecond, []string{"facts"}},
		{"images fail", nil, func(context.Context, attend.Scope) ([]attend.Image, error) { return nil, errDown }, 0, []string{"capture"}},
		{"images panic", nil, func(context.Context, attend.Scope) ([]attend.Image, error) { panic("no") }, 0, []string{"capture"}},
		{"images heed nothing", nil, func(ctx context.Context, _ attend.Scope) ([]attend.Image, error) { return nil, deaf(ctx) }, 500 * time.Millisecond, []string{"capture"}},
		{
			"both are slow", func(ctx context.Context, _ attend.Scope) (json.RawMessage, error) { return nil, slow(ctx) },
			func(ctx context.Context, _ attend.Scope) ([]attend.Image, error) { return nil, slow(ctx) },
			500 * time.Millisecond, []string{"facts", "capture"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := timed(new(attendtest.Judge))
				cfg := config()
				cfg.Judge, cfg.Facts, cfg.Capture = m.judge(), row.facts, row.images
				var mu sync.Mutex
				var traced []string
				cfg.Observer = func(tr attend.Trace) {
					if c, ok := tr.(attend.CaptureFailed); ok {
						mu.Lock()
						defer mu.Unlock()
						traced = append(traced, c.What)
						if c.Err == nil || c.Scope != "repo" {
							t.Errorf("trace %+v, want an error of repo", c)
						}
					}
				}
				f := start(t, cfg)
				push(t, f.Engine, "repo", "a", "flush.x")
				sleep(10 * time.Second)
				if !slices.Equal(m.at, []time.Duration{row.after}) {
					t.Errorf("judged after %v, want %v", m.at, row.after)
				}
				if in := m.Judge.(*attendtest.Judge).Calls()[0]; in.Facts != nil || in.Images != nil {
					t.Errorf("told facts %s and images %v, want neither", in.Facts, in.Images)
				}
				if !slices.Equal(traced, row.traced) {
					t.Errorf("traced %v, want %v", traced, row.traced)
				}
				if n := len(f.sink.Delivered()); n != 1 {
					t.Errorf("%d delivered, want 1", n)
				}
			})
		})
	}
}

// E35: Run waits for facts that heed no context.
func TestE35RunWaitsForFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		over := false
		cfg.Facts = func(context.Context, attend.Scope) (json.RawMessage, error) {
			time.Sleep(5 * time.Second)
			over = true
			return nil, nil
		}
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(time.Second)
		f.stop()
		if !over {
			t.Error("Run has returned while Facts runs")
		}
	})
}

// E17: the act threshold is applied before the decision is logged, and a
// changed route is told.
func TestE17TheActThreshold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attendtest.Answer{Route: attend.RouteInterrupt, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.4, attend.RouteNote: 0.6}})
		cfg.ActThreshold = 0.7
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		if got := f.sink.Delivered(); len(got) != 1 || got[0].Route != attend.RouteNote {
			t.Errorf("delivered %v, want a note", got)
		}
	})
}

// An error's text is kept with the dead letter, cut at 1 KiB.
func TestE25TheMessageOfADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, config(attendtest.Answer{Err: attend.Permanent(errors.New(strings.Repeat("x", 5000)))}))
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		if got := f.letters.Taken(); len(got) != 1 || len(got[0].Message) != 1024 {
			t.Errorf("dead letters %v, want one with a message of 1 KiB", len(got))
		}
	})
}
