package journal_test

import (
	"context"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A store opens a Journal on its database and gets four of its methods from it.
func ExampleOpen() {
	ctx := context.Background()
	b := newBackend() // a database
	j, err := journal.Open(ctx, b, journal.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.UnixMilli(1_767_268_800_000)
	j.Commit(ctx, []attend.Write{
		{Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}, Due: at},
		{Scope: "ops/web", Inputs: [][]byte{[]byte("slow")}},
	})
	fmt.Println("records:", len(b.records), "folded:", len(b.states))
	j.Close()

	j, _ = journal.Open(ctx, b, journal.Config{}) // after a restart
	for scope := range j.Due(ctx, at) {
		rec, _ := j.Load(ctx, scope)
		fmt.Printf("%s: %s\n", scope, rec.Tail[0])
	}
	// Output:
	// records: 1 folded: 0
	// ops/db: disk full
}
