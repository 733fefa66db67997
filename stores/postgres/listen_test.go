package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// A follower reads a log to its end again and again, and waits between.
type follower struct {
	mu   sync.Mutex
	seen []attend.DecisionID
}

func follow(t testing.TB, s *postgres.Store) *follower {
	f := new(follower)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	all.Go(func() {
		var q attend.Query
		for {
			for e, err := range s.Log().Read(ctx, q) {
				if err != nil {
					break // a server that is gone comes back
				}
				f.mu.Lock()
				f.seen = append(f.seen, e.ID)
				f.mu.Unlock()
				q.After = e.Cursor
			}
			if err := s.Log().(attend.Waiter).Wait(ctx, q); ctx.Err() != nil || errors.Is(err, attend.ErrClosed) {
				return
			}
		}
	})
	return f
}

func (f *follower) has(id attend.DecisionID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.seen, id)
}

// quietLog keeps what the store tells of its troubles out of the test's output.
func quietLog() (*slog.Logger, *lines) {
	l := new(lines)
	return slog.New(slog.NewTextHandler(l, nil)), l
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// With an hour between two looks it is notifications that wake.
func TestNotificationsWake(t *testing.T) {
	u := serverURL(t)
	f := newFactory(t, u, postgres.Config{Listen: u, Poll: time.Hour})
	conformance.Log(t, f.store())
	conformance.Concurrent(t, f.store())
	conformance.EventLog(t, f.events())
}

func TestNotificationsOfAnotherHandle(t *testing.T) {
	u := serverURL(t)
	pool := newPool(t, u)
	c := migrated(t, pool, postgres.Config{})
	writer := storeOn(t, pool, c)
	c.Listen, c.Poll = u, time.Hour
	reader := storeOn(t, pool, c)
	f := follow(t, reader)
	eventually(t, "the reader hears notifications", func() bool { return postgres.Heard(reader) })
	for i := range 20 {
		id := fmt.Sprint(i)
		began := time.Now()
		put(t, writer, attend.Write{Scope: attend.Scope("s" + id), Rows: []attend.Row{decisionRow("s", id)}})
		eventually(t, "a notification wakes the reader", func() bool { return f.has(attend.DecisionID(id)) })
		// There is a look every two seconds besides.
		if d := time.Since(began); d > time.Second {
			t.Errorf("the reader heard of row %d after %v", i, d)
		}
	}
}

// A connection that is dead on one side alone is noticed within seconds. What is
// committed meanwhile is found, and notifications come again when it is over.
func TestListenerWhoseServerFallsSilent(t *testing.T) {
	u := serverURL(t)
	pool := newPool(t, u)
	p, through := newProxy(t, u)
	c := migrated(t, pool, postgres.Config{})
	writer := storeOn(t, pool, c)
	log, told := quietLog()
	c.Listen, c.Poll, c.Logger = through, 50*time.Millisecond, log
	reader := storeOn(t, pool, c)
	f := follow(t, reader)
	hears := func() bool { return postgres.Heard(reader) }
	eventually(t, "the reader hears notifications", hears)

	p.hush(true)
	began := time.Now()
	n := 0
	add := func() (id attend.DecisionID) {
		n++
		id = attend.DecisionID(fmt.Sprint(n))
		put(t, writer, attend.Write{Scope: attend.Scope("s" + id), Rows: []attend.Row{decisionRow("s", string(id))}})
		return id
	}
	for hears() {
		add()
		time.Sleep(50 * time.Millisecond)
		if time.Since(began) > 20*time.Second {
			t.Fatal("a listener whose server says nothing is not noticed in 20 s")
		}
	}
	if d := time.Since(began); d > 6*time.Second {
		t.Errorf("a listener whose server says nothing was noticed after %v, want a few seconds", d)
	}
	if !strings.Contains(told.String(), "polled") {
		t.Errorf("nobody was told that the log is polled: %q", told)
	}
	last := add()
	began = time.Now()
	eventually(t, "the log is polled meanwhile", func() bool { return f.has(last) })
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("a row was found after %v, with a look every 50 ms", d)
	}

	p.hush(false)
	eventually(t, "the reader hears notifications again", hears)
	last = add()
	eventually(t, "the last row is found", func() bool { return f.has(last) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		if i >= len(f.seen) || f.seen[i] != attend.DecisionID(fmt.Sprint(i+1)) {
			t.Fatalf("the reader saw %v, want 1 to %d in order", f.seen, n)
		}
	}
}

// A server that can't be listened to is no reason not to work, and its password
// is in no message.
func TestListenerWithoutServer(t *testing.T) {
	base := serverURL(t)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:1"
	secret, _ := u.User.Password()
	pool := newPool(t, base)
	log, told := quietLog()
	c := migrated(t, pool, postgres.Config{Listen: u.String(), Poll: 20 * time.Millisecond, Logger: log})
	s := storeOn(t, pool, c)
	f := follow(t, s)
	other := storeOn(t, pool, postgres.Config{Prefix: c.Prefix})
	put(t, other, attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "d")}})
	eventually(t, "the row is found", func() bool { return f.has("d") })
	eventually(t, "somebody is told", func() bool { return told.String() != "" })
	if strings.Contains(told.String(), secret) {
		t.Error("the log message holds the password")
	}
}

// A waiter hears that its cursor is of no use any more.
func TestWaitersHearOfTrims(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{Poll: 10 * time.Millisecond})
	s, other := storeOn(t, pool, c), storeOn(t, pool, c)
	put(t, s, attend.Write{Scope: "a", Rows: []attend.Row{decisionRow("a", "1")}})
	_, at := ids(t, s.Log(), attend.Query{})
	woken := make(chan error, 1)
	go func() {
		woken <- s.Log().(attend.Waiter).Wait(context.Background(), attend.Query{After: at, Prefix: "b"})
	}()
	time.Sleep(20 * time.Millisecond)
	put(t, other, attend.Write{Scope: "c", Rows: []attend.Row{decisionRow("c", "2")}})
	if err := other.Log().Trim(t.Context(), attend.Retain{Age: time.Hour}, noon.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-woken:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Wait goes on behind a cursor that is truncated")
	}
	for _, err := range s.Log().Read(t.Context(), attend.Query{After: at, Prefix: "b"}) {
		if !errors.Is(err, attend.ErrTruncated) {
			t.Errorf("Read behind the trimmed row: %v, want an error that is ErrTruncated", err)
		}
		return
	}
	t.Error("Read behind the trimmed row yields nothing, want an error that is ErrTruncated")
}

// A waiter that nothing comes for sleeps: there is no busy loop, and those who
// wait share one query.
func TestWaitersAreLeftAlone(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{Poll: 5 * time.Millisecond})
	s := storeOn(t, pool, c)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	woken := make(chan error, 40)
	for i := range 40 {
		all.Go(func() {
			// A prefix deeper than the lists is narrowed row by row.
			woken <- s.Log().(attend.Waiter).Wait(ctx, attend.Query{Prefix: attend.Prefix(fmt.Sprint("a/b/c/d/", i))})
		})
	}
	for i := range 50 {
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint("w", i)), Rows: []attend.Row{decisionRow("a/b/c/d", fmt.Sprint(i))}})
	}
	time.Sleep(100 * time.Millisecond)
	if n := len(woken); n > 0 {
		t.Errorf("%d of 40 waiters woke up for rows of another scope", n)
	}
	cancel()
	all.Wait()
	for range 40 {
		if err := <-woken; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait whose context ended: %v, want context.Canceled", err)
		}
	}
}
