package inspect_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server/inspect"
)

// Whatever happens to an event, at each moment its life can be told, and its end
// is what judge, sink and handler saw of it.
func TestE41EveryLifeCanBeTold(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var script []attendtest.Answer
			for range 200 {
				switch n := rnd.IntN(10); n {
				case 0:
					script = append(script, attendtest.Fail())
				case 1:
					script = append(script, attendtest.FailPermanently())
				default:
					routes := attend.AllRoutes()
					script = append(script, attendtest.Answer{Route: routes[rnd.IntN(len(routes))], Probabilities: map[attend.Route]float64{"skip": rnd.Float64(), "interrupt": rnd.Float64()}})
				}
			}
			w := newWorld(t, engine.Config{ActThreshold: []float64{0, 0.5}[seed%2], Settle: engine.Settle{MaxEvents: 8}}, script...)
			defer w.end()
			names := []string{"flush.a", "closing.a", "continuous.a", "passive.a", "consequence.a", "consequence.b", "context.a"}
			var all []string
			check := func() {
				t.Helper()
				for _, id := range all {
					x := w.explain(id)
					if len(x.Lives) != 1 || x.Lives[0].Fate == inspect.FateUnknown || x.Lives[0].Fate == inspect.FateDecided || len(x.Lives[0].Steps) == 0 {
						t.Errorf("seed %d: %s", seed, x.Text(nil))
					}
				}
			}
			for i := range 30 {
				var pairs []string
				for j := range 1 + rnd.IntN(4) {
					id := fmt.Sprintf("e%d.%d", i, j)
					all = append(all, id)
					pairs = append(pairs, id, names[rnd.IntN(len(names))])
				}
				if rnd.IntN(6) == 0 {
					w.sink.Fail(rnd.IntN(6))
					w.letters.Fail(rnd.IntN(3))
				}
				w.push(pairs...)
				wait(time.Duration(rnd.IntN(3000)) * time.Millisecond)
				if i%10 == 9 {
					check()
				}
			}
			if err := w.engine.Flush(t.Context(), scope); err != nil && !errors.Is(err, attend.ErrNotFound) {
				t.Fatal(err)
			}
			wait(time.Hour)
			check()

			want := make(map[string]inspect.Fate)
			for _, d := range w.sink.Delivered() {
				for _, e := range d.Window.Events {
					want[e.ID] = inspect.FateDelivered
				}
			}
			for _, l := range w.letters.Taken() {
				for _, e := range l.Window.Events {
					want[e.ID] = inspect.FateTaken
				}
			}
			count := make(map[inspect.Fate]int)
			for _, id := range all {
				x := w.explain(id)
				got := x.Lives[0].Fate
				count[got]++
				switch f, ok := want[id]; {
				case ok && got != f, !ok && got != inspect.FateSkipped && got != inspect.FateDropped && got != inspect.FateOpen:
					t.Errorf("seed %d: it was %q: %s", seed, f, x.Text(nil))
				}
			}
			if seed == 0 {
				t.Log(count)
			}
		})
	}
}
