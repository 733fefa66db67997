package journal_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// A rows keeps a decision log in memory. Its transactions have no way back: who
// gives up in the middle of one has changed nothing yet.
type rows struct {
	mu      sync.Mutex
	kept    map[attend.Position]attend.Row
	index   map[journal.Key][]attend.Position
	marks   journal.Marks
	waiters journal.Waiters
	updates int
	fault   error // of the next Updates
}

func newLog(keep attend.Retain) (*rows, *journal.Log) {
	b := &rows{kept: make(map[attend.Position]attend.Row), index: make(map[journal.Key][]attend.Position)}
	return b, &journal.Log{Backend: b, Name: "test", Epoch: "e", Retain: keep}
}

// add appends n rows a minute apart, of which every other one is a verdict.
func (b *rows) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var topics []journal.Topic
	for range n {
		b.marks.Newest++
		r := attend.Row{Scope: "ops/db", ID: "d", Type: attend.RowDecision, At: time.Unix(int64(b.marks.Newest)*60, 0)}
		if b.marks.Newest%2 == 0 {
			r.Type = attend.RowVerdict
		}
		b.kept[b.marks.Newest] = r
		topics = journal.RowTopics(topics, r.Type, r.Scope)
	}
	b.waiters.Tell(topics)
}

func (b *rows) View(ctx context.Context, f func(journal.LogReader) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(ctx.Err(), f(b))
}

func (b *rows) Update(ctx context.Context, f func(journal.LogTx) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.updates++
	if b.fault != nil {
		return b.fault
	}
	return errors.Join(ctx.Err(), f(b))
}

func (b *rows) Wait(ctx context.Context, topics []journal.Topic, look func(journal.LogReader) (bool, attend.Position, error)) error {
	told, leave := b.waiters.Join(topics)
	defer leave()
	b.mu.Lock()
	ready, newest, err := look(b)
	if !ready && err == nil && newest != b.marks.Newest {
		err = fmt.Errorf("look has seen %d rows, want %d", newest, b.marks.Newest)
	}
	b.mu.Unlock()
	if ready || err != nil {
		return err
	}
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *rows) Marks() (journal.Marks, error) { return b.marks, nil }

func (b *rows) Page(q attend.Query, m journal.Marks, after attend.Position) (p journal.Page, err error) {
	var found []attend.Position
	for _, t := range journal.Types(q) {
		for _, k := range journal.PrefixKeys(t, q.Prefix) {
			found = append(found, b.index[k]...)
		}
	}
	for pos := m.Indexed + 1; pos <= m.Newest; pos++ {
		found = append(found, pos)
	}
	slices.Sort(found)
	p.Next = after
	for _, pos := range found {
		r, ok := b.kept[pos]
		if pos <= after || !ok {
			continue
		}
		if p.More = len(p.Entries) == journal.PageRows; p.More {
			break
		}
		p.Next = pos
		if q.Wants(r.Type) && q.Prefix.Covers(r.Scope) {
			p.Entries = append(p.Entries, attend.Entry{Cursor: attend.LogCursor{Epoch: "e", Position: pos}, Row: r})
		}
	}
	return p, nil
}

func (b *rows) Find(id attend.DecisionID, t attend.RowType) (*attend.Entry, error) {
	for pos := b.marks.Newest; pos > 0; pos-- {
		if r, ok := b.kept[pos]; ok && r.ID == id && r.Type == t {
			return &attend.Entry{Cursor: attend.LogCursor{Epoch: "e", Position: pos}, Row: r}, nil
		}
	}
	return nil, nil
}

func (b *rows) times(places []attend.Position) iter.Seq2[journal.RowTime, error] {
	return func(yield func(journal.RowTime, error) bool) {
		for _, pos := range places {
			if !yield(journal.RowTime{Pos: pos, At: b.kept[pos].At.UnixMilli()}, nil) {
				return
			}
		}
	}
}

func (b *rows) Oldest(class int) iter.Seq2[journal.RowTime, error] {
	return b.times(b.index[journal.ClassKey(class)])
}

func (b *rows) Newest(class int, before attend.Position) iter.Seq2[journal.RowTime, error] {
	all := slices.Clone(b.index[journal.ClassKey(class)])
	all = slices.DeleteFunc(all, func(pos attend.Position) bool { return pos >= before })
	slices.Reverse(all)
	return b.times(all)
}

func (b *rows) Index(n int) (int, error) {
	did := 0
	for ; did < n && b.marks.Indexed < b.marks.Newest; did++ {
		b.marks.Indexed++
		r := b.kept[b.marks.Indexed]
		b.marks.Kept[journal.Class(r.Type)]++
		for _, e := range journal.RowEntries(nil, b.marks.Indexed, r.Type, r.Scope, r.ID) {
			b.index[e.Key] = append(b.index[e.Key], e.Pos)
		}
	}
	return did, nil
}

func (b *rows) Trim(class int, upTo attend.Position, n int) (int, error) {
	places := b.index[journal.ClassKey(class)]
	did := 0
	for ; did < min(n, len(places)) && places[did] <= upTo; did++ {
		r := b.kept[places[did]]
		for _, e := range journal.RowEntries(nil, places[did], r.Type, r.Scope, r.ID) {
			b.index[e.Key] = slices.DeleteFunc(slices.Clone(b.index[e.Key]), func(p attend.Position) bool { return p == e.Pos })
		}
		delete(b.kept, places[did])
		b.marks.Trimmed[class] = places[did]
	}
	b.marks.Kept[class] -= int64(did)
	return did, nil
}

// left counts the rows of each class.
func (b *rows) left() (n [2]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.kept {
		n[journal.Class(r.Type)]++
	}
	return n
}

func positions(t testing.TB, l *journal.Log, q attend.Query) (out []attend.Position) {
	t.Helper()
	for e, err := range l.Read(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Cursor.Position)
	}
	return out
}

func TestLogTrim(t *testing.T) {
	now := time.Unix(2000*60, 0)
	for _, c := range []struct {
		name string
		keep attend.Retain
		want [2]int
	}{
		{"nothing", attend.Retain{}, [2]int{1000, 1000}},
		{"count", attend.Retain{Count: 10}, [2]int{10, 1000}},
		{"verdicts", attend.Retain{Verdicts: 300}, [2]int{1000, 300}},
		{"age", attend.Retain{Age: 100*time.Minute - time.Second}, [2]int{50, 50}},
		{"count and age", attend.Retain{Count: 20, Verdicts: 600, Age: 500 * time.Minute}, [2]int{20, 251}},
		{"more than there is", attend.Retain{Count: 5000, Verdicts: 1000, Age: 9000 * time.Minute}, [2]int{1000, 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, l := newLog(attend.Retain{})
			b.add(2000)
			if err := l.Trim(t.Context(), c.keep, now); err != nil {
				t.Fatal(err)
			}
			if got := b.left(); got != c.want || b.marks.Indexed != 2000 {
				t.Errorf("Trim leaves %d decisions and verdicts of %d rows in the index, want %d of 2000", got, b.marks.Indexed, c.want)
			}
			was := b.updates
			if err := l.Trim(t.Context(), c.keep, now); err != nil || b.updates != was {
				t.Errorf("Trim = %v with %d updates where there is nothing to do, want none", err, b.updates-was)
			}
		})
	}
}

func TestLogRead(t *testing.T) {
	b, l := newLog(attend.Retain{})
	b.add(700)
	if err := b.Update(t.Context(), func(tx journal.LogTx) error { _, err := tx.Index(300); return err }); err != nil {
		t.Fatal(err)
	}
	seq := l.Read(t.Context(), attend.Query{Prefix: "ops/"})
	for range 2 {
		n := 0
		for e, err := range seq {
			if err != nil || e.Cursor.Position != attend.Position(2*n+1) {
				t.Fatalf("row %d is at %d, %v", n, e.Cursor.Position, err)
			}
			n++
		}
		if n != 350 {
			t.Errorf("Read yields %d decisions, want 350, each time", n)
		}
	}
	if got := positions(t, l, attend.Query{After: attend.LogCursor{Epoch: "e", Position: 695}}); !slices.Equal(got, []attend.Position{697, 699}) {
		t.Errorf("Read behind 695 = %d, want 697 and 699", got)
	}
	// What is trimmed under a reader ends it.
	n := 0
	for _, err := range l.Read(t.Context(), attend.Query{}) {
		if n++; err != nil {
			if n != journal.PageRows+1 || !errors.Is(err, attend.ErrTruncated) {
				t.Errorf("after %d rows Read = %v, want ErrTruncated after a page", n-1, err)
			}
			break
		}
		if n == 1 {
			if err := l.Trim(t.Context(), attend.Retain{Count: 10}, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e, err := l.Find(t.Context(), "d", ""); err != nil || e.Cursor.Position != 699 {
		t.Errorf("Find = %d, %v, want the newest decision, 699", e.Cursor.Position, err)
	}
	if _, err := l.Find(t.Context(), "none", ""); !errors.Is(err, attend.ErrNotFound) {
		t.Errorf("Find of what isn't there = %v, want ErrNotFound", err)
	}
}

// Keep applies Retain in the background, begins with what is there, tries again
// in a while where it fails, or when there are new rows, and ends.
func TestLogKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLog(attend.Retain{Count: 40, Verdicts: 300, Age: 800 * time.Minute})
		b.add(2000)
		b.fault = errFault
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { l.Keep(done) })
		rest := func() {
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		steps := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.updates
		}
		rest()
		failed := steps()
		if failed < 2 || failed > 1000 {
			t.Errorf("while all steps fail there were %d in an hour, want one now and then", failed)
		}
		b.add(2)
		l.Grown()
		time.Sleep(time.Second)
		synctest.Wait()
		if steps() == failed {
			t.Error("no step was tried when rows came")
		}
		b.mu.Lock()
		b.fault = nil
		b.mu.Unlock()
		rest()
		if got := b.left(); got != [2]int{40, 300} {
			t.Errorf("%d decisions and verdicts are left, want 40 and 300", got)
		}
		was := steps()
		rest()
		if now := steps(); now != was {
			t.Errorf("%d steps while there is nothing to do", now-was)
		}
		close(done)
		wg.Wait()
	})
}

func TestLogWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newLog(attend.Retain{})
		b.add(3)
		wait := func(ctx context.Context, after attend.Position, epoch string) error {
			return l.Wait(ctx, attend.Query{Prefix: "ops", After: attend.LogCursor{Epoch: epoch, Position: after}})
		}
		for _, at := range []attend.LogCursor{{}, {Epoch: "e", Position: 2}, {Epoch: "another", Position: 3}} {
			if err := wait(t.Context(), at.Position, at.Epoch); err != nil {
				t.Errorf("Wait behind %v = %v, want that there is something", at, err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wait(short, 3, "e"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait behind the last row = %v, want DeadlineExceeded", err)
		}
		woken := make(chan error, 1)
		go func() { woken <- wait(t.Context(), 3, "e") }()
		synctest.Wait()
		b.add(1) // a verdict
		synctest.Wait()
		select {
		case err := <-woken:
			t.Errorf("Wait = %v for a verdict, want it to wait on", err)
		default:
		}
		b.add(1)
		if err := <-woken; err != nil {
			t.Errorf("Wait = %v, want that there is something", err)
		}
	})
}

// A far is a log in which a waiter has far to look.
type far struct {
	*rows
	looks, pages int
	look         func() // called before each look
	end          attend.Position
}

func (b *far) Wait(ctx context.Context, _ []journal.Topic, look func(journal.LogReader) (bool, attend.Position, error)) error {
	b.looks++
	b.look()
	b.pages = 0
	if ready, _, err := look(b); ready || err != nil {
		return err
	}
	return errors.New("nothing was found")
}

func (b *far) Page(_ attend.Query, _ journal.Marks, after attend.Position) (p journal.Page, err error) {
	if b.pages++; b.pages > 20 {
		return p, errors.New("a transaction of more than 20 pages")
	}
	if after == b.end {
		p.Entries = append(p.Entries, attend.Entry{})
	}
	p.Next, p.More = after+1, true
	return p, nil
}

// A waiter that has far to look goes on step by step, and ends with its
// context.
func TestWaitInSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		looks int // when the context ends
		want  error
	}{
		{"in the end", 1000, nil},
		{"with its context", 3, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rows, _ := newLog(attend.Retain{})
		b := &far{rows: rows, end: 100}
		b.look = func() {
			if b.looks == c.looks {
				cancel()
			}
		}
		l := &journal.Log{Backend: b, Name: "test", Epoch: "e"}
		if err := l.Wait(ctx, attend.Query{}); !errors.Is(err, c.want) {
			t.Errorf("%s: Wait = %v, want %v", c.name, err, c.want)
		}
		if b.looks < 3 || b.looks > 100 {
			t.Errorf("%s: Wait has looked %d times, want a few", c.name, b.looks)
		}
	}
}
