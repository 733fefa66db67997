package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// What was committed is there for the next process.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attend")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "attend.db")

	store, err := sqlite.Open(ctx, file, sqlite.Config{Retain: attend.Retain{Count: 100_000, Verdicts: 10_000}})
	if err != nil {
		panic(err)
	}
	at := time.UnixMilli(1_767_268_800_000)
	store.Commit(ctx, []attend.Write{{
		Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}, Due: at,
		Rows: []attend.Row{{Scope: "ops/db", ID: "d1", Type: attend.RowDecision, At: at, Body: []byte(`{}`)}},
	}})
	store.Close()

	if store, err = sqlite.Open(ctx, file, sqlite.Config{}); err != nil {
		panic(err)
	}
	defer store.Close()
	for scope := range store.Due(ctx, at) {
		rec, _ := store.Load(ctx, scope)
		fmt.Printf("due: %s with %q\n", scope, rec.Tail)
	}
	for e := range store.Log().Read(ctx, attend.Query{Prefix: "ops"}) {
		fmt.Println("decided:", e.ID)
	}
	// Output:
	// due: ops/db with ["disk full"]
	// decided: d1
}

// An app that has a database already can keep attend's tables in it.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attend")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", filepath.Join(dir, "app.db"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.Exec("CREATE TABLE notes(text)")

	store, err := sqlite.New(ctx, db, sqlite.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	out, err := store.Commit(ctx, []attend.Write{{Scope: "ops/db", Snapshot: []byte("settled")}})
	fmt.Println("conflict:", out[0].Conflict(), err)
	_, err = db.Exec("INSERT INTO notes VALUES('beside it')")
	fmt.Println("the app's own:", err)
	// Output:
	// conflict: false <nil>
	// the app's own: <nil>
}

func ExampleOpenEventLog() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attend")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log, err := sqlite.OpenEventLog(ctx, filepath.Join(dir, "events.db"), sqlite.Config{Retain: attend.Retain{Age: 24 * time.Hour}})
	if err != nil {
		panic(err)
	}
	defer log.Close()
	for range 2 { // a producer that got no answer sends again
		log.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}})
	}
	for b := range log.Batches(ctx, "repo", "") {
		fmt.Println(len(b.Events), "event:", b.Events[0].Name)
	}
	// Output:
	// 1 event: build.finished
}

func ExampleNewEventLog() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attend")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", filepath.Join(dir, "app.db"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	log, err := sqlite.NewEventLog(ctx, db, sqlite.Config{})
	if err != nil {
		panic(err)
	}
	defer log.Close()
	fmt.Println(log.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}}))
	// Output:
	// <nil>
}
