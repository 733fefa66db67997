package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
)

// A world is what no process takes with it when it dies: the judge, the sink and
// the dead-letter handler, with what they were asked.
type world struct {
	story   *story
	asked   map[string]int // by lane, window, and how often it has waited
	sink    attendtest.Sink
	letters attendtest.Letters
	calls   int    // of the judge
	stop    func() // asks the process to end that is calling
}

func newWorld(s *story) *world {
	w := &world{story: s, asked: make(map[string]int)}
	w.sink.Handle = func(_ context.Context, d attend.Decision) error {
		return w.next("sink", s.sink, &d.Window).err
	}
	w.letters.Handle = func(_ context.Context, l attend.DeadLetter) error {
		return w.next("letters", s.letters, &l.Window).err
	}
	return w
}

// next is the answer for a window.
func (w *world) next(lane string, among map[string]reply, window *attend.Window) answer {
	id := window.Events[len(window.Events)-1].ID
	key := fmt.Sprint(lane, " ", window.Scope, " ", id, " ", window.Waits)
	n := w.asked[key]
	w.asked[key]++
	r := among[id]
	switch {
	case n < len(r.first) && r.first[n].stop:
		w.stop()
		return answer{err: context.Canceled}
	case n < len(r.first):
		return r.first[n]
	case r.always != nil:
		return answer{err: r.always}
	case len(r.routes) > 0:
		return answer{Judgment: r.routes[min(window.Waits, len(r.routes)-1)]}
	}
	return answer{Judgment: attend.Judgment{Route: attend.RouteQueue}}
}

// The three as one process calls them.

type worldJudge struct {
	w    *world
	stop func()
}

func (j worldJudge) Judge(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	j.w.calls++
	j.w.stop = j.stop
	a := j.w.next("judge", j.w.story.judge, &in.Window)
	return a.Judgment, a.err
}

// worldPureJudge is asked inside the commit.
type worldPureJudge struct{ worldJudge }

func (worldPureJudge) Pure() {}

// config is the settings of a process, which stop asks to end. The leases are
// short beside everything that windows wait for, so that what one dead process
// holds up moves no event into another window.
func (w *world) config(store attend.ScopeStore, settings []string, stop func()) engine.Config {
	cfg := engine.Config{
		Store: store, Kind: storyKind, Judge: worldJudge{w, stop},
		Sink: attend.SinkFunc(func(ctx context.Context, d attend.Decision) error {
			w.stop = stop
			return w.sink.Deliver(ctx, d)
		}),
		DeadLetter: attend.LetterFunc(func(ctx context.Context, l attend.DeadLetter) error {
			w.stop = stop
			return w.letters.Letter(ctx, l)
		}),
		Settle: engine.Settle{
			ClosingGrace: time.Minute, StreamGap: 70 * time.Second, PassiveQuiet: 80 * time.Second,
			WaitHorizon: 5 * time.Minute, MaxWindow: 10 * time.Minute,
		},
		JudgeTimeout: time.Second, DeliveryTimeout: time.Second,
		RetryBackoff:         []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		DeadLetterBackoffMax: 8 * time.Second, AccountGrace: 30 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, s := range settings {
		if err := set(&cfg, s); err != nil {
			panic(fmt.Sprintf("conformance: story %s: setting %s: %v", w.story.name, s, err))
		}
	}
	return cfg
}

// set changes one setting.
func set(cfg *engine.Config, setting string) (err error) {
	name, value, _ := strings.Cut(setting, "=")
	number := func(to *int) { *to, err = strconv.Atoi(value) }
	duration := func(to *time.Duration) { *to, err = time.ParseDuration(value) }
	switch name {
	case "ClosingGrace":
		duration(&cfg.Settle.ClosingGrace)
	case "AccountGrace":
		duration(&cfg.AccountGrace)
	case "MaxWindow":
		duration(&cfg.Settle.MaxWindow)
	case "IdleExpiry":
		duration(&cfg.IdleExpiry)
	case "MaxEvents":
		number(&cfg.Settle.MaxEvents)
	case "MaxWindowBytes":
		number(&cfg.Settle.MaxWindowBytes)
	case "MaxOutbox":
		number(&cfg.MaxOutbox)
	case "SeenCount":
		number(&cfg.SeenCount)
	case "ActThreshold":
		cfg.ActThreshold, err = strconv.ParseFloat(value, 64)
	case "Judge": // pure
		cfg.Judge = worldPureJudge{cfg.Judge.(worldJudge)}
	case "Sink": // log
		cfg.Sink = attend.LogOnly
	case "DeadLetter": // log
		cfg.DeadLetter = attend.LogLetters
	case "OmitVerdicts":
		cfg.OmitVerdicts = true
	default:
		err = fmt.Errorf("unknown")
	}
	return err
}
