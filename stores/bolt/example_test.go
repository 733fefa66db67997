package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// What was committed is there after a restart. An engine does the commits; an
// app only opens the store.
func ExampleOpen() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "attend")
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "attend.db")

	s, err := bolt.Open(ctx, file, bolt.Config{Retain: attend.Retain{Count: 100_000, Verdicts: 10_000}})
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.UnixMilli(1_767_268_800_000)
	s.Commit(ctx, []attend.Write{{Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}, Due: at}})
	s.Close()

	s, _ = bolt.Open(ctx, file, bolt.Config{})
	defer s.Close()
	for scope := range s.Due(ctx, at) {
		rec, _ := s.Load(ctx, scope)
		fmt.Printf("%s: %s\n", scope, rec.Tail[0])
	}
	// Output: ops/db: disk full
}

// An app that has a bbolt file of its own keeps everything in it.
func ExampleNew() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "attend")
	defer os.RemoveAll(dir)
	db, err := bbolt.Open(filepath.Join(dir, "app.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	s, err := bolt.New(ctx, db, bolt.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	s.Commit(ctx, []attend.Write{{Scope: "ops", Rows: []attend.Row{
		{Scope: "ops/db", ID: "d1", Type: attend.RowDecision, Body: []byte(`{}`)},
	}}})
	for e := range s.Log().Read(ctx, attend.Query{Prefix: "ops"}) {
		fmt.Println("decided:", e.ID, "at position", e.Cursor.Position)
	}
	// Output: decided: d1 at position 1
}

func ExampleOpenEventLog() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "attend")
	defer os.RemoveAll(dir)
	l, err := bolt.OpenEventLog(ctx, filepath.Join(dir, "events.db"), bolt.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	for range 2 { // a producer that got no answer sends again
		l.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}})
	}
	for b := range l.Batches(ctx, "repo", "") {
		fmt.Println(len(b.Events), "event:", b.Events[0].Name)
	}
	// Output: 1 event: build.finished
}

func ExampleNewEventLog() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "attend")
	defer os.RemoveAll(dir)
	db, err := bbolt.Open(filepath.Join(dir, "app.db"), 0o600, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	l, _ := bolt.NewEventLog(ctx, db, bolt.Config{Retain: attend.Retain{Count: 1}})
	defer l.Close()
	l.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "a"}, {ID: "run-2", Name: "b"}})
	for b := range l.Batches(ctx, "repo", "") {
		fmt.Println("kept:", b.Events[0].ID)
	}
	// Output: kept: run-2
}
