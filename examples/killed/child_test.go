package killed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
	"github.com/attend-go/attend/stores/bolt"
)

// What a child process is told in its environment.
const (
	childJob   = "ATTEND_CHILD"       // client or server
	childStore = "ATTEND_CHILD_STORE" // a client's file
	childMode  = "ATTEND_CHILD_MODE"  // of delivery
	childURL   = "ATTEND_CHILD_URL"   // of a client's server; empty: a child of its own, on a pipe
	childFile  = "ATTEND_CHILD_FILE"  // of that server's events
)

// TestChild is what the tests of this package run in processes of their own. It
// is no test by itself.
func TestChild(t *testing.T) {
	switch os.Getenv(childJob) {
	case "client":
		childClient()
	case "server":
		childServer()
	default:
		t.Skip("no test by itself: others start it as a child process")
	}
	os.Exit(0)
}

// child is a command that runs TestChild.
func child(job string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(append(os.Environ(), childJob+"="+job), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// durableEngine is an engine in whose windows events pile up, ten to a decision,
// and whose judge is asked outside of a commit.
func durableEngine(store attend.ScopeStore) (*engine.Engine, error) {
	return engine.New(engine.Config{
		Store: store,
		Kind: func(e attend.Event) attend.Kind {
			var d struct{ N int }
			if json.Unmarshal(e.Data, &d) == nil && d.N%10 == 9 {
				return attend.KindFlush
			}
			return attend.KindConsequence
		},
		Judge: attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
			return attend.Judgment{Route: attend.RouteInterrupt}, nil
		}),
		Sink: attend.LogOnly, DeadLetter: attend.LogLetters, Logger: slog.New(slog.DiscardHandler),
		JudgeTimeout: 300 * time.Millisecond,
		// A call that was under way when its process was killed is an attempt.
		RetryBackoff: slices.Repeat([]time.Duration{10 * time.Millisecond}, 32),
		Settle:       engine.Settle{MaxEvents: 1_000_000, MaxWindowBytes: 64 << 20},
	})
}

// A loud source prints a line for each batch that was committed.
type loud struct{ attend.Source }

func (s loud) Batches(ctx context.Context, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	return func(yield func(attend.Batch, error) bool) {
		for b, err := range s.Source.Batches(ctx, after) {
			if !yield(b, err) || err != nil {
				return
			}
			fmt.Println("took", len(b.Events))
		}
	}
}

// childClient follows a server into a store, until it is killed.
func childClient() {
	ctx := context.Background()
	store, err := bolt.Open(ctx, os.Getenv(childStore), bolt.Config{Patience: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	e, err := durableEngine(store)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(e.Run(ctx)) }()
	src, err := mcpsource.New(mcpsource.NewSessions(childDial), mcpsource.Config{Name: "alert", Mode: mcpevents.Mode(os.Getenv(childMode))})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(e.Attach(ctx, repo, loud{src}))
}

// childDial reaches the server that the environment names.
func childDial(ctx context.Context) (*mcpevents.Session, error) {
	if url := os.Getenv(childURL); url != "" {
		return overHTTP(ctx, url)
	}
	return connect(ctx, &mcp.CommandTransport{Command: child("server", childFile+"="+os.Getenv(childFile))})
}

// childServer serves the events of a file on standard input and output.
func childServer() {
	ev, m, err := newServer(lines(os.Getenv(childFile)))
	if err != nil {
		log.Fatal(err)
	}
	_ = m.Run(context.Background(), ev.Transport(&mcp.StdioTransport{})) // it ends with its client
}

// Lines is a backend of a file that others append lines to; line n is the event
// e<n>, and a cursor counts lines.
type lines string

func (f lines) count() (int, error) {
	b, err := os.ReadFile(string(f))
	return bytes.Count(b, []byte("\n")), err
}

func (f lines) Head(context.Context, mcpevents.Subscription) (mcpevents.Cursor, error) {
	n, err := f.count()
	return mcpevents.Cursor(strconv.Itoa(n)), err
}

func (f lines) Read(_ context.Context, _ mcpevents.Subscription, q mcpevents.Query) (mcpevents.Page, error) {
	from, bad := strconv.Atoi(string(q.After))
	n, err := f.count()
	p := mcpevents.Page{Cursor: q.After}
	if bad != nil || from > n {
		p.Truncated, p.Cursor, p.Start = true, mcpevents.Cursor(strconv.Itoa(n)), mcpevents.Cursor(strconv.Itoa(n))
		return p, err
	}
	for i := from; i < n; i++ {
		if p.More = len(p.Events) >= q.Limit; p.More {
			break
		}
		p.Cursor = mcpevents.Cursor(strconv.Itoa(i + 1))
		p.Events = append(p.Events, mcpevents.Event{
			ID: id(i), Name: "alert", At: time.UnixMilli(1_767_225_600_000), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), Cursor: p.Cursor,
		})
	}
	return p, err
}

func (f lines) Wait(ctx context.Context, _ mcpevents.Subscription, after mcpevents.Cursor) error {
	for {
		if n, err := f.count(); err != nil || strconv.Itoa(n) != string(after) {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
