package postgres_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// Migrate runs at deploy, as the role that owns the tables; the program itself
// works as one that may read and write them.
func ExampleOpen() {
	ctx := context.Background()
	c := postgres.Config{Prefix: "attend_", Role: "app", Retain: attend.Retain{Count: 100_000}}
	if err := postgres.MigrateURL(ctx, os.Getenv("OWNER_URL"), c); err != nil {
		log.Fatal(err)
	}

	c.Listen = os.Getenv("DATABASE_URL") // the server itself, for notifications
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), c)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	out, err := store.Commit(ctx, []attend.Write{{Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("conflict:", out[0].Conflict())
}

// Behind a pooler in transaction mode statements have no names, and
// notifications go past it.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@pooler:6432/app?default_query_exec_mode=exec")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := postgres.New(ctx, pool, postgres.Config{Listen: "postgres://app@server:5432/app"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for scope, err := range store.Log().Read(ctx, attend.Query{Prefix: "ops"}) {
		fmt.Println(scope, err)
	}
}

func ExampleOpenEventLog() {
	ctx := context.Background()
	events, err := postgres.OpenEventLog(ctx, os.Getenv("DATABASE_URL"), postgres.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	for range 2 { // a producer that got no answer sends again
		if err := events.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}}); err != nil {
			log.Fatal(err)
		}
	}
	for b, err := range events.Batches(ctx, "repo", "") {
		fmt.Println(len(b.Events), err)
	}
}

func ExampleNewEventLog() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	events, err := postgres.NewEventLog(ctx, pool, postgres.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	source := attend.LogSource("builds", events, "repo") // for Engine.Attach
	fmt.Println(source.Key())
}
