package inspect_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server/inspect"
)

var update = flag.Bool("update", false, "rewrite testdata/stories: read the difference")

// E41: each fate an event can have, and the story of it.
func TestE41Stories(t *testing.T) {
	probable := func(r attend.Route, p map[attend.Route]float64) attendtest.Answer {
		return attendtest.Answer{Route: r, Probabilities: p}
	}
	for _, c := range []struct {
		name   string
		config engine.Config
		script []attendtest.Answer
		run    func(w *world)
		event  string
		want   inspect.Fate
	}{
		{"open", engine.Config{}, nil, func(w *world) {
			w.push("log", "consequence.log", "e", "passive.look")
		}, "e", inspect.FateOpen},
		{"open-no-act", engine.Config{}, nil, func(w *world) {
			w.push("log", "consequence.log")
			wait(5 * second)
		}, "log", inspect.FateOpen},
		{"open-context", engine.Config{}, nil, func(w *world) {
			w.push("own", "context.said", "e", "closing.build")
		}, "own", inspect.FateOpen},
		{"open-behind-slot", engine.Config{}, []attendtest.Answer{attendtest.Hang()}, func(w *world) {
			w.push("first", "flush.asked")
			wait(second)
			w.push("e", "flush.asked")
			synctest.Wait()
		}, "e", inspect.FateOpen},
		{"judging", engine.Config{}, []attendtest.Answer{attendtest.Fail(), attendtest.Hang()}, func(w *world) {
			w.push("e", "flush.asked")
			wait(2 * second)
		}, "e", inspect.FateJudging},
		{"judging-later", engine.Config{}, []attendtest.Answer{attendtest.Fail()}, func(w *world) {
			w.push("e", "flush.asked")
			wait(2 * second)
		}, "e", inspect.FateJudging},
		{"held", engine.Config{}, []attendtest.Answer{{Route: attend.RouteWait}}, func(w *world) {
			w.push("e", "closing.build")
			wait(2 * second)
		}, "e", inspect.FateHeld},
		{"held-and-merged", engine.Config{}, []attendtest.Answer{{Route: attend.RouteWait}, {Route: attend.RouteInterrupt}}, func(w *world) {
			w.push("e", "closing.build")
			wait(2 * second)
			w.push("asks", "flush.asked")
			wait(second)
		}, "e", inspect.FateDelivered},
		{"skipped", engine.Config{}, []attendtest.Answer{probable(attend.RouteSkip, map[attend.Route]float64{"skip": 0.75, "note": 0.25})}, func(w *world) {
			w.push("e", "closing.build", "log", "consequence.log")
			wait(2 * second)
		}, "e", inspect.FateSkipped},
		{"threshold", engine.Config{ActThreshold: 0.6}, []attendtest.Answer{probable(attend.RouteInterrupt, map[attend.Route]float64{"interrupt": 0.5, "queue": 0.3, "note": 0.2})}, func(w *world) {
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateDelivered},
		{"threshold-skips", engine.Config{ActThreshold: 0.6}, []attendtest.Answer{probable(attend.RouteInterrupt, map[attend.Route]float64{"interrupt": 0.2, "skip": 0.8})}, func(w *world) {
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateSkipped},
		{"delivered", engine.Config{}, []attendtest.Answer{{Route: attend.RouteNote, Confidence: 0.5, Predicates: map[string]float64{"harm": 0.125}}}, func(w *world) {
			w.sink.Fail(1)
			w.push("other", "consequence.log", "e", "flush.asked")
			wait(5 * second)
		}, "e", inspect.FateDelivered},
		{"delivering", engine.Config{}, []attendtest.Answer{{Route: attend.RouteNote}}, func(w *world) {
			w.sink.Fail(2)
			w.push("e", "flush.asked")
			wait(2 * second)
		}, "e", inspect.FateDelivering},
		{"logged", engine.Config{Sink: attend.LogOnly}, []attendtest.Answer{{Route: attend.RouteQueue}}, func(w *world) {
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateLogged},
		{"verdicts-off", engine.Config{OmitVerdicts: true}, []attendtest.Answer{{Route: attend.RouteQueue}}, func(w *world) {
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateDecided},
		{"dropped-count", engine.Config{Settle: engine.Settle{MaxEvents: 2}}, nil, func(w *world) {
			w.push("e", "consequence.log", "f", "consequence.log", "g", "consequence.log")
			wait(second)
		}, "e", inspect.FateDropped},
		{"dropped-size", engine.Config{Settle: engine.Settle{MaxWindowBytes: 200}}, nil, func(w *world) {
			w.push("e", "consequence.log")
			w.push("f", "consequence.log")
			wait(second)
		}, "e", inspect.FateDropped},
		{"dropped-stale", engine.Config{}, nil, func(w *world) {
			w.push("e", "consequence.log")
			wait(2 * time.Minute)
			w.push("f", "consequence.log")
		}, "e", inspect.FateDropped},
		{"dropped-expired", engine.Config{IdleExpiry: 30 * second}, nil, func(w *world) {
			w.push("e", "consequence.log")
			wait(time.Minute)
		}, "e", inspect.FateDropped},
		{"letter-judge", engine.Config{}, []attendtest.Answer{attendtest.FailPermanently()}, func(w *world) {
			w.letters.Fail(1000)
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateLetter},
		{"letter-judge-taken", engine.Config{}, []attendtest.Answer{attendtest.Fail()}, func(w *world) {
			w.letters.Fail(1)
			w.push("e", "closing.build")
			wait(time.Minute)
		}, "e", inspect.FateTaken},
		{"letter-judge-logged", engine.Config{DeadLetter: attend.LogLetters}, []attendtest.Answer{attendtest.Fail()}, func(w *world) {
			w.push("e", "closing.build")
			wait(time.Minute)
		}, "e", inspect.FateTaken},
		{"letter-sink", engine.Config{}, []attendtest.Answer{{Route: attend.RouteAsk}}, func(w *world) {
			w.sink.Fail(1000)
			w.letters.Fail(1000)
			w.push("e", "flush.asked")
			wait(time.Minute)
		}, "e", inspect.FateLetter},
		{"letter-sink-logged", engine.Config{DeadLetter: attend.LogLetters}, []attendtest.Answer{{Route: attend.RouteAsk}}, func(w *world) {
			w.sink.Handle = func(context.Context, attend.Decision) error {
				return attend.Permanent(errors.New("nobody\x1b[31m is\nthere"))
			}
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateTaken},
		{"letter-sink-taken", engine.Config{}, []attendtest.Answer{{Route: attend.RouteAsk}}, func(w *world) {
			w.sink.Fail(1000)
			w.push("e", "flush.asked")
			wait(time.Minute)
		}, "e", inspect.FateTaken},
		{"delivering-trimmed", engine.Config{ActThreshold: 0.5}, []attendtest.Answer{probable(attend.RouteNote, map[attend.Route]float64{"interrupt": 0.5})}, func(w *world) {
			w.sink.Fail(1000)
			w.push("e", "flush.asked")
			wait(second)
			w.push("f", "flush.asked")
			wait(second)
			w.trim(attend.Retain{Count: 1}) // of the decisions alone
		}, "e", inspect.FateDelivering},
		{"letter-sink-trimmed", engine.Config{}, []attendtest.Answer{{Route: attend.RouteAsk}}, func(w *world) {
			w.sink.Fail(1000)
			w.letters.Fail(1000)
			w.push("e", "flush.asked")
			wait(time.Minute)
			w.trim(attend.Retain{Age: 1})
		}, "e", inspect.FateLetter},
		{"removed-while-held", engine.Config{}, []attendtest.Answer{{Route: attend.RouteWait}}, func(w *world) {
			w.push("e", "closing.build")
			wait(2 * second)
			if err := w.store.Remove(w.t.Context(), scope); err != nil {
				w.t.Fatal(err)
			}
		}, "e", inspect.FateUnknown},
		{"letter-intake", engine.Config{}, nil, func(w *world) {
			w.letters.Fail(1000)
			w.attach("feed", "e", "unheard.of")
		}, "e", inspect.FateLetter},
		{"letter-intake-taken", engine.Config{}, nil, func(w *world) {
			w.attach("feed", "e", "unheard.of")
		}, "e", inspect.FateTaken},
		{"again-after-forgotten", engine.Config{SeenCount: -1}, []attendtest.Answer{{Route: attend.RouteSkip}, {Route: attend.RouteQueue}}, func(w *world) {
			w.push("e", "flush.asked")
			wait(second)
			for range 3 {
				w.push("other", "consequence.log") // the memory is never less than the last push
			}
			wait(second)
			w.push("e", "flush.asked")
			wait(second)
		}, "e", inspect.FateDelivered},
		{"unknown", engine.Config{}, nil, func(w *world) {
			w.push("other", "flush.asked")
			wait(second)
		}, "e", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.config, c.script...)
				defer w.end()
				c.run(w)
				x := w.explain(c.event)
				got := x.Text(nil)
				switch {
				case c.want == "" && len(x.Lives) > 0, c.want != "" && len(x.Lives) != 1:
					t.Errorf("%d lives: %s", len(x.Lives), got)
				case c.want != "" && x.Lives[0].Fate != c.want:
					t.Errorf("the fate is %s, want %s", x.Lives[0].Fate, c.want)
				}
				golden(t, c.name, got)
			})
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "stories", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the story is\n%s\nwant\n%s", got, want)
	}
}

// trim is what retention does.
func (w *world) trim(keep attend.Retain) {
	if err := w.store.Log().Trim(w.t.Context(), keep, time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// attach runs a source that brings one event.
func (w *world) attach(key, id, name string) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.engine.Attach(ctx, scope, batches{key, []attend.Batch{{Events: []attend.Event{{ID: id, Name: name}}, Cursor: "1"}}})
	}()
	wait(2 * second)
	cancel()
	<-ended
}
