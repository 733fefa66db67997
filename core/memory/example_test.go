package memory_test

import (
	"context"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// A store keeps bytes by scope and version. An engine does this; an app only
// makes the store.
func ExampleNew() {
	ctx := context.Background()
	store := memory.New()
	at := time.UnixMilli(1_767_268_800_000)

	out, _ := store.Commit(ctx, []attend.Write{{Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}, Due: at}})
	stale := attend.Write{Scope: "ops/db", Expect: 0, Inputs: [][]byte{[]byte("too late")}}
	lost, _ := store.Commit(ctx, []attend.Write{stale})
	fmt.Println("conflicts:", out[0].Conflict(), lost[0].Conflict())

	store.Commit(ctx, []attend.Write{{
		Scope: "ops/db", Expect: out[0].Version, Snapshot: []byte("settled"), KeepDue: true,
		Rows: []attend.Row{{Scope: "ops/db", ID: "d1", Type: attend.RowDecision, At: at, Body: []byte(`{}`)}},
	}})
	for scope := range store.Due(ctx, at) {
		rec, _ := store.Load(ctx, scope)
		fmt.Printf("due: %s, snapshot %q, tail of %d\n", scope, rec.Snapshot, len(rec.Tail))
	}
	for e := range store.Log().Read(ctx, attend.Query{Prefix: "ops"}) {
		fmt.Println("decided:", e.ID, "at position", e.Cursor.Position)
	}
	// Output:
	// conflicts: false true
	// due: ops/db, snapshot "settled", tail of 0
	// decided: d1 at position 1
}

func ExampleNewWith() {
	store := memory.NewWith(memory.Options{Retain: attend.Retain{Count: 2}})
	for _, id := range []attend.DecisionID{"d1", "d2", "d3"} {
		store.Commit(context.Background(), []attend.Write{{
			Scope: attend.Scope(id), Rows: []attend.Row{{Scope: "ops", ID: id, Type: attend.RowDecision}},
		}})
	}
	for e := range store.Log().Read(context.Background(), attend.Query{}) {
		fmt.Println(e.ID)
	}
	// Output:
	// d2
	// d3
}

func ExampleNewEventLog() {
	ctx := context.Background()
	log := memory.NewEventLog()
	for range 2 { // a producer that got no answer sends again
		log.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}})
	}
	for b := range log.Batches(ctx, "repo", "") {
		fmt.Println(len(b.Events), "event:", b.Events[0].Name)
	}
	// Output:
	// 1 event: build.finished
}

func ExampleNewEventLogWith() {
	ctx := context.Background()
	log := memory.NewEventLogWith(memory.Options{Retain: attend.Retain{Count: 1}})
	log.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}})
	var read attend.Cursor
	for b := range log.Batches(ctx, "repo", "") {
		read = b.Cursor
	}
	log.Append(ctx, "repo", []attend.Event{{ID: "run-2", Name: "build.finished"}, {ID: "run-3", Name: "build.finished"}})
	for b := range log.Batches(ctx, "repo", read) {
		fmt.Println("lost some:", b.Gap, "and goes on with:", b.Events[0].ID)
	}
	// Output:
	// lost some: true and goes on with: run-3
}
