package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
	"github.com/redis/rueidis"
)

func ExampleOpen() {
	ctx := context.Background()
	store, err := redis.Open(ctx, "redis://attend:secret@127.0.0.1:6379/0", redis.Config{
		Prefix: "attend:{orders}:",
		Retain: attend.Retain{Count: 100_000, Verdicts: 100_000, Age: 90 * 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	// An engine does this; an app only makes the store.
	out, err := store.Commit(ctx, []attend.Write{{Scope: "ops/db", Inputs: [][]byte{[]byte("disk full")}, Due: time.Now()}})
	if err != nil {
		log.Fatal(err) // it may have landed: load the scope, and go on from there
	}
	fmt.Println("conflict:", out[0].Conflict())
}

func ExampleNew() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}, // of a cluster
		DisableCache: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := redis.New(ctx, client, redis.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for e, err := range store.Log().Read(ctx, attend.Query{Prefix: "ops"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("decided:", e.ID)
	}
}

func ExampleOpenEventLog() {
	ctx := context.Background()
	events, err := redis.OpenEventLog(ctx, "redis://127.0.0.1:6379/0", redis.Config{
		Prefix: "attend:{orders}:",
		Retain: attend.Retain{Age: 7 * 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	for range 2 { // a producer that got no answer sends again
		if err := events.Append(ctx, "repo", []attend.Event{{ID: "run-1", Name: "build.finished"}}); err != nil {
			log.Print(err)
		}
	}
	source := attend.LogSource("builds", events, "repo") // for an engine's Attach
	fmt.Println(source.Key())
}

func ExampleNewEventLog() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	events, err := redis.NewEventLog(ctx, client, redis.Config{}) // beside a store on the same client
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	for b, err := range events.Batches(ctx, "repo", "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(b.Events), "events, read on behind", b.Cursor)
	}
}
