package decisions_test

import (
	"context"
	"fmt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/internal/decisions"
)

// A reader of decisions as they come: read until there is no more, then wait.
func ExampleNewFeed() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := memory.New()
	feed := decisions.NewFeed(store.Log(), nil)
	now, err := feed.Now(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	go store.Commit(ctx, []attend.Write{{Scope: "ops", Rows: []attend.Row{{
		Scope: "ops", ID: "d1", Type: attend.RowDecision,
		Body: []byte(`{"id":"d1","scope":"ops","route":"note","window":{"events":[{"id":"1","name":"deploy","text":"v2 is live"}]}}`),
	}}}})

	for q := (decisions.Query{After: now, Prefixes: []attend.Prefix{"ops"}}); ; {
		page, err := feed.Read(ctx, q)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, i := range page.Items {
			fmt.Println(attend.DefaultNotice(i.Decision))
			return
		}
		q.After = page.Next
		if !page.More {
			if err := feed.Wait(ctx, q); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	// Output:
	// v2 is live
	// For your information: keep it in mind, and do not answer it.
}
