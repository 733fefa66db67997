package attendtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/memory"
)

// A judge that fails once, asks for a pause, and then interrupts for good.
func ExampleJudge() {
	judge := &attendtest.Judge{Script: []attendtest.Answer{
		attendtest.Fail(),
		attendtest.RetryAfter(20 * time.Second),
		{Route: attend.RouteInterrupt, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.9}},
	}}
	in := attend.JudgeInput{Window: attend.Window{Scope: "repo/attend", Events: []attend.Event{{ID: "build-7"}}}}
	for range 4 {
		j, err := judge.Judge(context.Background(), in)
		fmt.Println(j.Route, err)
	}
	fmt.Println(len(judge.Calls()), "calls, the first about", judge.Calls()[0].Window.Events[0].ID)
	// Output:
	//  attendtest: scripted failure
	//  attendtest: scripted failure
	// interrupt <nil>
	// interrupt <nil>
	// 4 calls, the first about build-7
}

// A judge that is slow: its answer comes when the test says so.
func ExampleAnswer() {
	until := make(chan struct{})
	judge := &attendtest.Judge{Script: []attendtest.Answer{{Route: attend.RouteQueue, Until: until}}}
	answered := make(chan attend.Route)
	go func() {
		j, _ := judge.Judge(context.Background(), attend.JudgeInput{})
		answered <- j.Route
	}()
	fmt.Println("more events come in meanwhile")
	close(until)
	fmt.Println(<-answered)
	// Output:
	// more events come in meanwhile
	// queue
}

// A sink that is down for two deliveries, and never takes what it can't show.
func ExampleSink() {
	sink := &attendtest.Sink{Handle: func(_ context.Context, d attend.Decision) error {
		if d.Route == attend.RouteAsk {
			return attend.Permanent(errors.New("nobody is there to be asked"))
		}
		return nil
	}}
	sink.Fail(2)
	queue := attend.Decision{ID: "1", Judgment: attend.Judgment{Route: attend.RouteQueue}}
	ask := attend.Decision{ID: "2", Judgment: attend.Judgment{Route: attend.RouteAsk}}
	for _, d := range []attend.Decision{queue, queue, queue, ask} {
		fmt.Println(d.ID, sink.Deliver(context.Background(), d))
	}
	fmt.Println(len(sink.Attempts()), "attempts,", len(sink.Delivered()), "delivered")
	// Output:
	// 1 attendtest: scripted failure
	// 1 attendtest: scripted failure
	// 1 <nil>
	// 2 nobody is there to be asked
	// 4 attempts, 1 delivered
}

func ExampleLetters() {
	letters := new(attendtest.Letters)
	letters.Fail(1)
	l := attend.DeadLetter{ID: "1", Stage: attend.StageJudge, Attempts: 4}
	fmt.Println(letters.Letter(context.Background(), l))
	fmt.Println(letters.Letter(context.Background(), l))
	for _, l := range letters.Taken() {
		fmt.Println(l.Stage, "gave up after", l.Attempts, "attempts")
	}
	// Output:
	// attendtest: scripted failure
	// <nil>
	// judge gave up after 4 attempts
}

// The same work with a crash at each of its commits: whatever the crash, the
// next process can tell from the store what is left to do.
func ExampleCrashStore() {
	ctx := context.Background()
	work := func(store attend.ScopeStore) error { // writes what is missing of three inputs
		for {
			rec, err := store.Load(ctx, "repo/attend")
			if err != nil || len(rec.Tail) == 3 {
				return err
			}
			write := attend.Write{Scope: "repo/attend", Expect: rec.Version, Inputs: [][]byte{{byte(len(rec.Tail))}}}
			if _, err := store.Commit(ctx, []attend.Write{write}); err != nil {
				return err
			}
		}
	}
	for _, fault := range []attendtest.Fault{attendtest.FaultBefore, attendtest.FaultAfter} {
		for n := 1; ; n++ {
			store := &attendtest.CrashStore{Store: memory.New(), At: n, Fault: fault}
			err := work(store)
			if err == nil {
				break // it has fewer than n commits
			}
			next := store.Reopen()
			again := work(next)
			rec, _ := next.Load(ctx, "repo/attend")
			fmt.Println(fault, n, errors.Is(err, attendtest.ErrCrashed), again, next.Commits(), rec.Tail)
		}
	}
	// Output:
	// before 1 true <nil> 3 [[0] [1] [2]]
	// before 2 true <nil> 2 [[0] [1] [2]]
	// before 3 true <nil> 1 [[0] [1] [2]]
	// after 1 true <nil> 2 [[0] [1] [2]]
	// after 2 true <nil> 1 [[0] [1] [2]]
	// after 3 true <nil> 0 [[0] [1] [2]]
}
