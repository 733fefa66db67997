package killed_test

import (
	"bufio"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
	"github.com/attend-go/attend/stores/bolt"
)

// kills is how often the client is killed: ATTEND_KILLS, or else 20.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("ATTEND_KILLS")); err == nil && n > 0 {
		return n
	}
	return 20
}

// C2, with a real crash: a process with the engine, the source and a store on disk
// is killed again and again, in mid-stream and while it starts, as the server goes
// on. Each event is in one decision, in order, and in one alone.
func TestC2KilledOverHTTP(t *testing.T) {
	events := mcpevents.NewLog(mcpevents.LogConfig{MaxEvents: 1_000_000, MaxBytes: 1 << 30})
	url := serve(t, events)
	k := &killing{t: t, kills: kills(), env: childURL + "=" + url, make: func(from, to int) { appendTo(t, events, from, to) }}
	k.run()
	k.conclude(func(ctx context.Context) (*mcpevents.Session, error) { return overHTTP(ctx, url) })
}

// The same with a server that is a child on a pipe, and ends with its client; its
// events are in a file.
func TestC2KilledOverStdio(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := &killing{t: t, kills: max(kills()/4, 1), env: childFile + "=" + file, make: func(from, to int) {
		if _, err := f.Write(slices.Repeat([]byte("\n"), to-from)); err != nil {
			t.Errorf("write: %v", err)
		}
	}}
	k.run()
	t.Setenv(childFile, file)
	k.conclude(childDial)
}

// A killing starts clients on one store and kills them, while events are made.
type killing struct {
	t     *testing.T
	kills int
	make  func(from, to int)
	env   string // where the client's server is

	store  string
	events int
}

func (k *killing) run() {
	seed := rand.Uint64()
	k.t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	k.store = filepath.Join(k.t.TempDir(), "attend.db")
	var writer sync.WaitGroup
	stop := make(chan struct{})
	defer writer.Wait()
	defer close(stop)
	took := 0
	for i := range k.kills {
		mode := mcpevents.Push
		if i%3 == 2 { // cursors are good in every mode
			mode = mcpevents.Poll
		}
		cmd := child("client", childStore+"="+k.store, childMode+"="+string(mode), k.env)
		out, err := cmd.StdoutPipe()
		if err != nil {
			k.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			k.t.Fatal(err)
		}
		lines := make(chan string, 10_000)
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(out); s.Scan(); {
				lines <- s.Text()
			}
		}()
		started := time.After(time.Minute)
		switch {
		case i == 0: // the cursor is committed: from now on nothing may be lost
			select {
			case <-lines:
			case <-started:
				k.t.Fatal("the client took nothing within a minute")
			}
			writer.Go(func() { k.write(stop) })
		case rnd.IntN(4) > 0: // in mid-stream
			select {
			case <-lines:
			case <-started:
				k.t.Fatal("the client took nothing within a minute")
			}
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond))))
		if err := cmd.Process.Kill(); err != nil {
			k.t.Fatal(err)
		}
		for range lines {
			took++
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			k.t.Fatalf("the client ended by itself: %v", cmd.ProcessState)
		}
	}
	k.t.Logf("%d batches in %d lives, beside the first of most", took, k.kills)
	if took == 0 {
		k.t.Error("no client took a second batch: nobody was killed in mid-stream")
	}
}

// write makes events, a few each millisecond, until stop.
func (k *killing) write(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		n := 1 + rand.IntN(3)
		k.make(k.events, k.events+n)
		k.events += n
	}
}

// conclude takes what is left in this process, and looks at the decisions.
func (k *killing) conclude(dial func(context.Context) (*mcpevents.Session, error)) {
	t := k.t
	last := (k.events + 9) / 10 * 10 // the last event settles what is open
	if last > k.events {
		k.make(k.events, last)
	}
	k.events = last
	store, err := bolt.Open(t.Context(), k.store, bolt.Config{Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := durableEngine(store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sessions := mcpsource.NewSessions(dial)
	src, err := mcpsource.New(sessions, mcpsource.Config{Name: "alert"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx) })
	wg.Go(func() { _ = e.Attach(ctx, repo, src) })
	defer wg.Wait()
	defer sessions.Close()
	defer cancel()
	var got []string
	for quiet := time.Now(); len(got) < k.events; time.Sleep(20 * time.Millisecond) {
		if now := decided(t, store.Log()); len(now) > len(got) {
			got, quiet = now, time.Now()
		}
		if time.Since(quiet) > 30*time.Second {
			t.Fatalf("decisions hold %d events of %d, and no more came for 30 s", len(got), k.events)
		}
	}
	if !slices.Equal(got, ids(0, k.events)) {
		t.Errorf("decisions hold %d events, want %d, each once and in order", len(got), k.events)
	}
	t.Logf("%d events in decisions, each once", len(got))
}

// decided are the ids of the events in a log's decisions, in order. Dead letters
// and gaps fail the test.
func decided(t *testing.T, log attend.DecisionLog) (out []string) {
	t.Helper()
	for row, err := range log.Read(t.Context(), attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}) {
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		switch row.Type {
		case attend.RowLetter:
			t.Fatalf("a dead letter: %s", row.Body)
		case attend.RowDecision:
			var d attend.Decision
			if err := d.UnmarshalJSON(row.Body); err != nil {
				t.Fatalf("a decision: %v", err)
			}
			if d.Window.Gap || d.Window.Dropped > 0 {
				t.Fatalf("a window with gap %t and %d dropped, and nothing was lost", d.Window.Gap, d.Window.Dropped)
			}
			for _, v := range d.Window.Events {
				out = append(out, v.ID)
			}
		}
	}
	return out
}
