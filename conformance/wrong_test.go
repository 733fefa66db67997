package conformance_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// A wrongStore is the reference store with some of its methods broken. Its
// handles share the hooks, which work on a handle of their own, so that closing
// one handle doesn't close it under the others.
type wrongStore struct {
	*memory.Store
	h     *hooks
	ended *ending
}

// hooks replace methods; nil leaves them as they are.
type hooks struct {
	in     *memory.Store
	load   func(context.Context, attend.Scope) (attend.Record, error)
	commit func(context.Context, []attend.Write) ([]attend.Outcome, error)
	due    func(context.Context, time.Time) iter.Seq2[attend.Scope, error]
	remove func(context.Context, attend.Scope) error
	log    func(handle *memory.Store, l *logHooks) // breaks a log as Log returns it
	close  func()
	reopen func(second *hooks) // breaks the second handle further
	alive  string              // a method that works on a closed handle
}

// A wrongLog is the reference log with some of its methods broken.
type wrongLog struct {
	attend.DecisionLog
	attend.Waiter
	h     *logHooks
	ended *ending
}

type logHooks struct {
	in     attend.DecisionLog
	bounds func(context.Context) (attend.Bounds, error)
	read   func(context.Context, attend.Query) iter.Seq2[attend.Entry, error]
	find   func(context.Context, attend.DecisionID, attend.RowType) (attend.Entry, error)
	trim   func(context.Context, attend.Retain, time.Time) error
	wait   func(context.Context, attend.Query) error
	alive  string // a method that does not mind a closed handle
	// atClose answers for a Wait that blocks when its handle is closed. Nil:
	// ErrClosed.
	atClose func(context.Context) error
}

func newWrong(breakIt func(*hooks)) *wrongStore {
	s := memory.New()
	h := &hooks{in: s.Reopen()}
	breakIt(h)
	return &wrongStore{s, h, newEnding()}
}

func (s *wrongStore) reopen() *wrongStore {
	h := *s.h
	if h.reopen != nil {
		h.reopen(&h)
	}
	return &wrongStore{s.Store.Reopen(), &h, newEnding()}
}

// over is the error of a handle that was closed.
func (s *wrongStore) over(ctx context.Context) error {
	_, err := s.Store.Log().Bounds(context.WithoutCancel(ctx))
	return err
}

func (s *wrongStore) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	if s.h.alive == "Load" {
		return s.h.in.Load(ctx, scope)
	}
	if s.h.load == nil {
		return s.Store.Load(ctx, scope)
	}
	if err := s.over(ctx); err != nil {
		return attend.Record{}, err
	}
	return s.h.load(ctx, scope)
}

func (s *wrongStore) Commit(ctx context.Context, w []attend.Write) ([]attend.Outcome, error) {
	if s.h.commit == nil {
		return s.Store.Commit(ctx, w)
	}
	if err := s.over(ctx); err != nil {
		return nil, err
	}
	return s.h.commit(ctx, w)
}

func (s *wrongStore) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	closed := s.over(ctx) != nil
	if closed && s.h.alive == "Due" {
		return func(func(attend.Scope, error) bool) {}
	}
	if s.h.due == nil || closed {
		return s.Store.Due(ctx, now)
	}
	return s.h.due(ctx, now)
}

func (s *wrongStore) Remove(ctx context.Context, scope attend.Scope) error {
	if s.h.remove == nil {
		return s.Store.Remove(ctx, scope)
	}
	if err := s.over(ctx); err != nil {
		return err
	}
	return s.h.remove(ctx, scope)
}

func (s *wrongStore) Close() error {
	if s.h.close != nil {
		s.h.close()
	}
	defer s.ended.end()
	return s.Store.Close()
}

func (s *wrongStore) Log() attend.DecisionLog {
	l := &logHooks{in: s.h.in.Log()}
	if s.h.log != nil {
		s.h.log(s.Store, l)
	}
	own := s.Store.Log()
	return &wrongLog{own, own.(attend.Waiter), l, s.ended}
}

func (l *wrongLog) over(ctx context.Context) error {
	_, err := l.DecisionLog.Bounds(context.WithoutCancel(ctx))
	return err
}

func (l *wrongLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	if l.h.bounds == nil || l.over(ctx) != nil {
		return l.DecisionLog.Bounds(ctx)
	}
	return l.h.bounds(ctx)
}

func (l *wrongLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	if l.h.read == nil || l.over(ctx) != nil {
		return l.DecisionLog.Read(ctx, q)
	}
	return l.h.read(ctx, q)
}

func (l *wrongLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if l.h.alive == "Find" {
		return l.h.in.Find(ctx, id, t)
	}
	if l.h.find == nil || l.over(ctx) != nil {
		return l.DecisionLog.Find(ctx, id, t)
	}
	return l.h.find(ctx, id, t)
}

func (l *wrongLog) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	if l.h.trim == nil || l.over(ctx) != nil {
		return l.DecisionLog.Trim(ctx, keep, now)
	}
	return l.h.trim(ctx, keep, now)
}

func (l *wrongLog) Wait(ctx context.Context, q attend.Query) error {
	if l.h.alive == "Wait" {
		return l.h.in.(attend.Waiter).Wait(ctx, q)
	}
	if l.h.wait == nil || l.over(ctx) != nil {
		return l.Waiter.Wait(ctx, q)
	}
	return l.ended.during(ctx, l.h.atClose, func(ctx context.Context) error { return l.h.wait(ctx, q) })
}

// An ending tells what blocks on behalf of a handle that the handle was closed:
// the hooks work on another one, which goes on.
type ending struct {
	over context.Context
	end  context.CancelFunc
}

func newEnding() *ending {
	e := new(ending)
	e.over, e.end = context.WithCancel(context.Background())
	return e
}

// during calls wait, and answers by atClose once the handle is closed.
func (e *ending) during(ctx context.Context, atClose, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	woken := make(chan error, 1)
	go func() { woken <- wait(ctx) }()
	select {
	case err := <-woken:
		return err
	case <-e.over.Done():
	}
	if atClose != nil {
		return atClose(ctx)
	}
	return attend.ErrClosed
}

// goesOn and givesUp are what a Wait must not do when its handle is closed.
func goesOn(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func givesUp(context.Context) error { return context.Canceled }

// What many mutants are made of.

// editWrites commits changed copies of the writes.
func editWrites(h *hooks, edit func(ctx context.Context, w *attend.Write)) {
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		writes = slices.Clone(writes)
		for i := range writes {
			edit(ctx, &writes[i])
		}
		return h.in.Commit(ctx, writes)
	}
}

// editRecord changes what Load returns.
func editRecord(h *hooks, edit func(scope attend.Scope, rec *attend.Record)) {
	h.load = func(ctx context.Context, scope attend.Scope) (attend.Record, error) {
		rec, err := h.in.Load(ctx, scope)
		edit(scope, &rec)
		return rec, err
	}
}

// onLog breaks each log that Log returns, of any handle.
func onLog(h *hooks, breakIt func(l *logHooks)) {
	h.log = func(_ *memory.Store, l *logHooks) { breakIt(l) }
}

// editEntries changes or leaves out what Read yields.
func editEntries(l *logHooks, edit func(e *attend.Entry) bool) {
	l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
		return keeping(l.in.Read(ctx, q), edit)
	}
}

func keeping(seq iter.Seq2[attend.Entry, error], edit func(e *attend.Entry) bool) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		for e, err := range seq {
			if (err != nil || edit(&e)) && !yield(e, err) {
				return
			}
		}
	}
}

// gathered yields what arrange makes of all that seq yields, the error last.
func gathered[T any](seq iter.Seq2[T, error], arrange func([]T) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		var last error
		for x, err := range seq {
			if err != nil {
				last = err
				break
			}
			all = append(all, x)
		}
		for _, x := range arrange(all) {
			if !yield(x, nil) {
				return
			}
		}
		if last != nil {
			var zero T
			yield(zero, last)
		}
	}
}

// failing is an iterator of one error.
func failing[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, err)
	}
}

// onAfter passes everything on, and yields once more behind an error.
func onAfter[T any](seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range seq {
			if !yield(x, err) {
				return
			}
			if err != nil {
				var zero T
				yield(zero, nil)
			}
		}
	}
}

// locked holds l while it yields; a loop that is left early keeps it, if leaks.
func locked[T any](l *sync.RWMutex, leaks bool, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if !leaks {
			l.RLock()
			defer l.RUnlock()
		}
		for x, err := range seq {
			if !yield(x, err) {
				if leaks {
					l.RLock()
				}
				return
			}
		}
	}
}

// rowsOf appends rows by a scope that nobody asks for.
func rowsOf(ctx context.Context, h *hooks, rows []attend.Row) {
	if len(rows) > 0 {
		hidden := attend.Scope("hidden/" + string(rows[0].ID) + "/" + time.Now().String())
		h.in.Commit(context.WithoutCancel(ctx), []attend.Write{{Scope: hidden, Rows: rows}})
	}
}

// A flight counts the calls that are under way.
type flight struct{ n atomic.Int64 }

func (f *flight) during(call func()) {
	f.n.Add(1)
	defer f.n.Add(-1)
	call()
}

// A guarded map is safe for many goroutines.
type guarded[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

func (g *guarded[K, V]) set(k K, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = make(map[K]V)
	}
	g.m[k] = v
}

func (g *guarded[K, V]) get(k K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.m[k]
	return v, ok
}

// renumber shows other versions than the store has. next gives a scope's new
// version: from the one before, 0 for a new scope, and how many lives it had.
func renumber(h *hooks, next func(scope attend.Scope, before, real uint64, w *attend.Write, lives int) uint64) {
	type shown struct{ version, real uint64 }
	var mu sync.Mutex
	at := make(map[attend.Scope]shown)
	removed := make(map[attend.Scope]int)
	forgotten := make(map[attend.Scope]int)
	h.load = func(ctx context.Context, scope attend.Scope) (attend.Record, error) {
		mu.Lock()
		defer mu.Unlock()
		rec, err := h.in.Load(ctx, scope)
		rec.Version = at[scope].version
		return rec, err
	}
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		real := slices.Clone(writes)
		for i, w := range writes {
			if s := at[w.Scope]; w.Expect == s.version {
				real[i].Expect = s.real
			} else {
				real[i].Expect = s.real ^ 1<<62 // surely another one
			}
		}
		out, err := h.in.Commit(ctx, real)
		for i, o := range out {
			w := &writes[i]
			switch {
			case o.Conflict():
			case w.Forget:
				delete(at, w.Scope)
				forgotten[w.Scope]++
			default:
				lives := removed[w.Scope]
				if w.Expect == 0 && forgotten[w.Scope] > 0 {
					lives = -forgotten[w.Scope]
				}
				v := next(w.Scope, at[w.Scope].version, o.Version, w, lives)
				at[w.Scope] = shown{v, o.Version}
				out[i].Version = v
			}
		}
		return out, err
	}
	h.remove = func(ctx context.Context, scope attend.Scope) error {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := at[scope]; ok {
			removed[scope]++
		}
		err := h.in.Remove(ctx, scope)
		if err == nil {
			delete(at, scope)
		}
		return err
	}
}
