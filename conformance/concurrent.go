package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

func concurrentCases() []Case {
	return []Case{
		{"concurrent/one-winner", "of any number of concurrent writes at one version exactly one is applied", "v0.1", oneWinner},
		{"concurrent/one-creator", "of any number of concurrent writes at one version exactly one is applied", "v0.1", oneCreator},
		{"concurrent/groups", "of any number of concurrent writes at one version exactly one is applied", "v0.1", concurrentGroups},
		{"concurrent/whole", "What one write brings lands together or not at all", "v0.1", concurrentWhole},
		{"concurrent/log-order", "A reader that has read up to position p never later finds a row at or before p.", "v0.1", concurrentLogOrder},
		{"concurrent/log-newest", "Newest is the position of the newest row ever appended, 0 before the first.", "v0.1", concurrentNewest},
		{"concurrent/due", "Due yields the scopes whose due time is at or before now, oldest first.", "v0.1", concurrentDue},
		{"concurrent/methods", "Every method may be called from many goroutines at once.", "v0.1", concurrentMethods},
	}
}

func oneWinner(ctx context.Context, e Env) error {
	s := e.Store()
	return rounds(ctx, e, 40, func(i int) error {
		scope, tail := attend.Scope(fmt.Sprint("s-", i/20)), i%20
		if tail == 0 {
			if err := put(ctx, s, attend.Write{Scope: scope, Snapshot: []byte("state")}); err != nil {
				return err
			}
		}
		rec, err := load(ctx, s, scope)
		if err != nil {
			return err
		}
		return race(ctx, 8, func(int) attend.ScopeStore { return s }, scope, rec.Version, tail)
	})
}

func oneCreator(ctx context.Context, e Env) error {
	s := e.Store()
	return rounds(ctx, e, 40, func(i int) error {
		return race(ctx, 8, func(int) attend.ScopeStore { return s }, attend.Scope(fmt.Sprint("new-", i)), 0, 0)
	})
}

// Groups over the same few scopes, in different orders: each write that is
// applied adds one, and nothing is lost, added twice, or locked for ever.
func concurrentGroups(ctx context.Context, e Env) error {
	s := e.Store()
	const scopes, workers = 8, 8
	var applied [scopes]atomic.Int64
	type place struct {
		scope   int
		version uint64
	}
	var won sync.Map // of place
	t := newTeam(ctx)
	for worker := range workers {
		t.run(func(ctx context.Context) error {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			return rounds(ctx, e, 30, func(int) error {
				var writes []attend.Write
				picked := r.Perm(scopes)[:4]
				for _, i := range picked {
					scope := attend.Scope(fmt.Sprint("s-", i))
					rec, err := load(ctx, s, scope)
					if err != nil {
						return err
					}
					writes = append(writes, attend.Write{
						Scope: scope, Expect: rec.Version, Inputs: in("x"), Due: after(time.Duration(r.IntN(5)) * time.Millisecond),
					})
				}
				out, err := commit(ctx, s, writes...)
				if err != nil {
					return err
				}
				for i, o := range out {
					if o.Conflict() {
						continue
					}
					applied[picked[i]].Add(1)
					if _, twice := won.LoadOrStore(place{picked[i], writes[i].Expect}, true); twice {
						return fmt.Errorf("two groups won the same scope at version %d", writes[i].Expect)
					}
				}
				return nil
			})
		})
	}
	if err := t.wait(); err != nil {
		return err
	}
	for i := range applied {
		rec, err := load(ctx, s, attend.Scope(fmt.Sprint("s-", i)))
		if err != nil {
			return err
		}
		if int64(len(rec.Tail)) != applied[i].Load() {
			return fmt.Errorf("%d writes to one scope were answered as applied, and it holds %d inputs", applied[i].Load(), len(rec.Tail))
		}
	}
	return nil
}

// One writer adds an input and a row at a time. Whoever sees one of the two
// must see the other.
func concurrentWhole(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("state")}); err != nil {
		return err
	}
	t := newTeam(ctx)
	var done atomic.Bool
	t.run(func(ctx context.Context) error {
		defer done.Store(true)
		return rounds(ctx, e, 150, func(i int) error {
			return put(ctx, s, attend.Write{Scope: "ops", Inputs: in("x"), Rows: []attend.Row{row("ops", fmt.Sprint(i), decision)}})
		})
	})
	count := func(ctx context.Context) (inputs, rows int, err error) {
		rec, err := load(ctx, s, "ops")
		if err != nil {
			return 0, 0, err
		}
		entries, err := read(ctx, s, attend.Query{Prefix: "ops", Types: []attend.RowType{decision}})
		return len(rec.Tail), len(entries), err
	}
	for range 2 {
		t.run(func(ctx context.Context) error {
			for !done.Load() {
				inputs, rows, err := count(ctx)
				if err != nil {
					return err
				}
				if inputs > rows {
					return fmt.Errorf("a reader sees %d inputs, and then only %d of the rows that came with them", inputs, rows)
				}
				if inputs, _, err = count(ctx); err != nil {
					return err
				}
				if rows > inputs {
					return fmt.Errorf("a reader sees %d rows, and then only %d of the inputs that came with them", rows, inputs)
				}
			}
			return nil
		})
	}
	return t.wait()
}

// Sixteen writers commit, four readers follow, and in a soak 64 and 16. All
// readers find every row, once and in one order.
func concurrentLogOrder(ctx context.Context, e Env) error {
	s := e.Store()
	writers, readers, breath := 16, 4, time.Duration(0)
	if e.Soak > 0 {
		writers, readers, breath = 64, 16, 20*time.Millisecond // each reader keeps all that it finds
	}
	var done atomic.Bool
	var committed atomic.Int64
	w, r := newTeam(ctx), newTeam(ctx)
	found := make([][]attend.Entry, readers)
	for i := range readers {
		r.run(func(ctx context.Context) (err error) {
			found[i], err = tail(ctx, s, decisions, &done)
			return err
		})
	}
	for i := range writers {
		w.run(func(ctx context.Context) error {
			scope := attend.Scope(fmt.Sprint("s-", i))
			return rounds(ctx, e, 12, func(n int) error {
				rows := []attend.Row{row(scope, fmt.Sprintf("%d-%d-a", i, n), decision), row(scope, fmt.Sprintf("%d-%d-b", i, n), decision)}
				if n%3 == 0 {
					rows[1].Type = verdict
				}
				committed.Add(int64(1 + min(n%3, 1)))
				time.Sleep(breath)
				return put(ctx, s, attend.Write{Scope: scope, Rows: rows})
			})
		})
	}
	err := w.wait()
	done.Store(true)
	if err := errors.Join(err, r.wait()); err != nil {
		return err
	}
	want, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	if int64(len(want)) != committed.Load() {
		return fmt.Errorf("%d rows were committed, and the log holds %d", committed.Load(), len(want))
	}
	for i := range found {
		if slices.Equal(ids(found[i]), ids(want)) {
			continue
		}
		for k, e := range want {
			if k >= len(found[i]) || found[i][k].ID != e.ID {
				return fmt.Errorf("a reader that followed the log found %d of %d rows; it has not, as its number %d, the row at position %d", len(found[i]), len(want), k+1, e.Cursor.Position)
			}
		}
		return fmt.Errorf("a reader that followed the log found %d rows, and the log holds %d", len(found[i]), len(want))
	}
	return nil
}

// Who starts behind Newest misses no row that is committed after it asked.
func concurrentNewest(ctx context.Context, e Env) error {
	s := e.Store()
	t := newTeam(ctx)
	var done atomic.Bool
	var writing sync.WaitGroup
	for i := range 6 {
		writing.Add(1)
		t.run(func(ctx context.Context) error {
			defer writing.Done()
			scope := attend.Scope(fmt.Sprint("s-", i))
			return rounds(ctx, e, 25, func(n int) error {
				b, err := s.Log().Bounds(ctx)
				if err != nil {
					return fmt.Errorf("Bounds: %w", err)
				}
				id := fmt.Sprintf("%d-%d", i, n)
				if err := add(ctx, s, row(scope, id, decision)); err != nil {
					return err
				}
				got, err := read(ctx, s, from(decision, attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}))
				if err != nil {
					return fmt.Errorf("behind the Newest of a moment ago: %w", err)
				}
				if !slices.Contains(ids(got), id) {
					return fmt.Errorf("Newest was %d, then a row was committed, and it is not behind that", b.Newest)
				}
				if b, err = s.Log().Bounds(ctx); err != nil {
					return fmt.Errorf("Bounds: %w", err)
				}
				if last := got[len(got)-1].Cursor.Position; b.Newest < last {
					return fmt.Errorf("Newest is %d after a row at %d was read", b.Newest, last)
				}
				return nil
			})
		})
	}
	t.run(func(ctx context.Context) error { // noise of the other class
		for n := 0; !done.Load(); n++ {
			if err := put(ctx, s, attend.Write{Scope: "noise", Snapshot: []byte("n"), Rows: []attend.Row{row("noise", "v", verdict)}}); err != nil {
				return err
			}
		}
		return nil
	})
	writing.Wait()
	done.Store(true)
	return t.wait()
}

// What stays due is yielded by every sweep, once, whatever happens around it.
func concurrentDue(ctx context.Context, e Env) error {
	s := e.Store()
	const stay = 150
	due := make(map[attend.Scope]int)
	for i := range stay {
		due[attend.Scope(fmt.Sprint("stay-", i))] = 2 * i
	}
	if err := putDue(ctx, s, due); err != nil {
		return err
	}
	t := newTeam(ctx)
	var done atomic.Bool
	for i := range 3 {
		t.run(func(ctx context.Context) error {
			for n := 0; !done.Load(); n++ {
				scope := attend.Scope(fmt.Sprintf("churn-%d-%d", i, n%20))
				w := attend.Write{Scope: scope, Snapshot: []byte("x")}
				if n%3 > 0 {
					w.Due = after(time.Duration(n*37%200*2+1) * time.Millisecond) // never with one that stays
				}
				if err := put(ctx, s, w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.run(func(ctx context.Context) error {
		defer done.Store(true)
		return rounds(ctx, e, 15, func(int) error {
			got, err := dueAt(ctx, s, after(time.Second))
			if err != nil {
				return err
			}
			n := 0
			for _, scope := range got {
				if strings.HasPrefix(string(scope), "stay-") {
					n++
				}
			}
			slices.Sort(got)
			kept := slices.DeleteFunc(slices.Compact(got), func(s attend.Scope) bool { return !strings.HasPrefix(string(s), "stay-") })
			if n != stay || len(kept) != stay {
				return fmt.Errorf("of %d scopes that are due all the time, Due yields %d, %d of them different", stay, n, len(kept))
			}
			return nil
		})
	})
	return t.wait()
}

// Everything at once. What is checked is that nothing fails, and that the race
// detector has nothing to say.
func concurrentMethods(ctx context.Context, e Env) error {
	s := e.Store()
	t := newTeam(ctx)
	for i := range 4 {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		t.run(func(ctx context.Context) error {
			return rounds(ctx, e, 20, func(n int) error {
				scope := attend.Scope(fmt.Sprint("s-", r.IntN(6)))
				rec, err := load(ctx, s, scope)
				if err != nil {
					return err
				}
				w := attend.Write{Scope: scope, Expect: rec.Version, Inputs: in("a"), Due: noon, Rows: []attend.Row{row(scope, "d", everything[n%3])}}
				switch n % 4 {
				case 1:
					w.Inputs, w.Snapshot = nil, []byte("s")
				case 2:
					w.Forget = true
				}
				if _, err := commit(ctx, s, w); err != nil {
					return err
				}
				if n%5 == 0 {
					if err := s.Remove(ctx, scope); err != nil {
						return fmt.Errorf("Remove: %w", err)
					}
				}
				return nil
			})
		})
		t.run(func(ctx context.Context) error {
			return rounds(ctx, e, 20, func(int) error {
				for scope, err := range s.Due(ctx, noon) {
					if err != nil {
						return fmt.Errorf("Due: %w", err)
					}
					if _, err := load(ctx, s, scope); err != nil {
						return err
					}
				}
				l := s.Log()
				if _, err := l.Bounds(ctx); err != nil {
					return fmt.Errorf("Bounds: %w", err)
				}
				if _, err := read(ctx, s, attend.Query{Types: everything, Prefix: "s-1"}); err != nil && !errors.Is(err, attend.ErrTruncated) {
					return err
				}
				if _, err := l.Find(ctx, "d", decision); err != nil && !errors.Is(err, attend.ErrNotFound) {
					return fmt.Errorf("Find: %w", err)
				}
				return trim(ctx, s, attend.Retain{Count: 50, Verdicts: 50}, noon)
			})
		})
	}
	return t.wait()
}
