package inspect_test

import (
	"context"
	"fmt"
	"regexp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/inspect"
)

// Why did the agent hear of it, or not? A store is enough to tell.
func ExampleFromStore() {
	ctx := context.Background()
	store := memory.New()
	e, err := engine.New(engine.Config{
		Store: store, Judge: attend.RuleJudge, Sink: attend.LogOnly, DeadLetter: attend.LogLetters,
		Kind: func(attend.Event) attend.Kind { return attend.KindFlush },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := e.Push(ctx, "ops/db", attend.Event{ID: "m1", Name: "message"}); err != nil {
		fmt.Println(err)
		return
	}
	x, err := inspect.FromStore(ctx, store, inspect.Question{Scope: "ops/db", Event: "m1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`)
	fmt.Print(times.ReplaceAllString(x.Text(nil), "09:41"))
	// Output:
	// Event m1 in ops/db: message (flush)
	//   09:41  it is taken in, and opens a window
	//   09:41  the window settles: flush, with 1 event
	//   09:41  judged interrupt
	//   09:41  decided: interrupt, as c02e0ff0e3c60bbde850e4a382f92250e01c27b0
	//   now                      the decision is in the log, where it is read
}
