package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// journalChild names the journal that a child process serves.
const journalChild = "MCPEVENTS_JOURNAL_CHILD"

// A journal is a backend in a file, a line for each event, which outlives the
// process that serves it. Its cursors are how many lines lie behind.
type journal string

func (j journal) lines() ([]string, error) {
	raw, err := os.ReadFile(string(j))
	whole := raw[:bytes.LastIndexByte(raw, '\n')+1] // a line may be half written
	return strings.Split(string(whole), "\n")[:bytes.Count(whole, []byte("\n"))], err
}

func (j journal) Head(context.Context, Subscription) (Cursor, error) {
	lines, err := j.lines()
	return Cursor(strconv.Itoa(len(lines))), err
}

func (j journal) Read(_ context.Context, _ Subscription, q Query) (Page, error) {
	lines, err := j.lines()
	after, bad := strconv.Atoi(string(q.After))
	if err != nil || bad != nil || after > len(lines) {
		return Page{Cursor: Cursor(strconv.Itoa(len(lines))), Truncated: true}, err
	}
	page := Page{Cursor: q.After}
	for i := after; i < len(lines) && len(page.Events) < q.Limit; i++ {
		page.Cursor = Cursor(strconv.Itoa(i + 1))
		page.Events = append(page.Events, Event{ID: lines[i], At: time.Unix(int64(i), 0), Data: json.RawMessage(`{}`), Cursor: page.Cursor})
	}
	page.More = string(page.Cursor) != strconv.Itoa(len(lines))
	return page, nil
}

func (j journal) Wait(ctx context.Context, sub Subscription, after Cursor) error {
	for {
		if head, err := j.Head(ctx, sub); err != nil || head != after {
			return err
		}
		if !pause(ctx, 2*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// TestJournalChild is the process that serves a journal on its standard streams.
func TestJournalChild(t *testing.T) {
	file := os.Getenv(journalChild)
	if file == "" {
		t.Skip("runs as the child of another test")
	}
	s, m := rawServer(t, ServerConfig{NextPoll: 10 * time.Millisecond, MaxPolls: 1 << 20},
		Type{Name: "tick", Backend: journal(file)}, Type{Name: "tock", Backend: journal(file)})
	if err := m.Run(t.Context(), s.Transport(&mcp.StdioTransport{})); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// A server's process is killed in the middle. The client starts another, opens all
// streams again, and polls on: nothing is lost, nothing comes twice, and there is
// no gap.
func TestCE42AProcessThatIsKilledIsStartedAnew(t *testing.T) {
	const kills, each = 2, 100
	file := filepath.Join(t.TempDir(), "journal")
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	var mu sync.Mutex
	var started []*exec.Cmd
	c := Client{Dial: func(ctx context.Context) (*Session, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestJournalChild$")
		cmd.Env, cmd.Stderr = append(os.Environ(), journalChild+"="+file), os.Stderr
		s, err := Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil), &mcp.CommandTransport{Command: cmd}, SessionConfig{})
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, cmd)
		}
		return s, err
	}}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	heard := map[string]chan string{}
	var wg sync.WaitGroup
	for who, f := range map[string]FollowConfig{
		"tick": {Mode: Push}, "tock": {Mode: Push}, "tick by polls": {Mode: Poll, PollFloor: 10 * time.Millisecond},
	} {
		ids := make(chan string, kills*each)
		heard[who] = ids
		f.Cursor = "0"
		wg.Go(func() {
			for b, err := range c.Follow(ctx, Subscription{Name: strings.Fields(who)[0]}, f) {
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("%s: %v", who, err)
					}
					return
				}
				if b.Truncated || b.Dropped != 0 {
					t.Errorf("%s: truncated %v, %d dropped", who, b.Truncated, b.Dropped)
				}
				for _, v := range b.Events {
					ids <- v.ID
				}
			}
		})
	}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := fmt.Fprintf(out, "e%d\n", i); err != nil {
				t.Error(err)
			}
		}
	}
	hear := func(from, to int) {
		t.Helper()
		for who, ids := range heard {
			for i := from; i < to; i++ {
				select {
				case id := <-ids:
					if id != fmt.Sprint("e", i) {
						t.Fatalf("%s heard %s, want e%d", who, id, i)
					}
				case <-ctx.Done():
					t.Fatalf("%s did not hear e%d", who, i)
				}
			}
		}
	}
	for round := range kills {
		from := round * each
		write(from, from+each/2)
		hear(from, from+each/4) // all three are under way
		mu.Lock()
		last := started[len(started)-1]
		mu.Unlock()
		if err := last.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		write(from+each/2, from+each)
		hear(from+each/4, from+each)
	}
	stop()
	wg.Wait()
	if len(started) != kills+1 {
		t.Errorf("%d processes, want %d", len(started), kills+1)
	}
}
