package journal_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/stores/journal"
)

var seeds = flag.Int("seeds", 300, "how many random runs the differential test makes")

// A step is one call of a run, made from a few numbers, so that a run can be
// told again without some of its steps.
type step struct {
	op     int
	handle int
	seed   uint64
}

const (
	opCommit = iota
	opRemove
	opLoad
	opDue
	opReopen
	opBefore // a Commit that fails and does not land
	opLost   // a Commit that lands without an answer
	opTwice  // a Commit whose transaction is tried twice
	opSeen   // a Commit that a Load sees before its own Journal knows
	opCopy   // a copy of the database is made
	opPut    // and put in place under all handles
)

var opNames = []string{"commit", "remove", "load", "due", "reopen", "commit that fails", "commit whose answer is lost", "commit tried twice", "commit that a load sees first", "copy", "put the copy in place"}

// weights say how often each op is drawn, in percent.
var weights = []int{48, 5, 15, 8, 5, 3, 3, 3, 5, 3, 2}

func drawSteps(r *rand.Rand, n, handles int) (steps []step) {
	for range n {
		at, op := r.IntN(100), 0
		for at >= weights[op] {
			at -= weights[op]
			op++
		}
		steps = append(steps, step{op, r.IntN(handles), r.Uint64()})
	}
	return steps
}

// A world runs steps on Journals over one backend, and on the memory store as
// the model.
type world struct {
	b       *backend
	budget  int
	handles []*store
	model   *memory.Store
	// Versions of the model differ from the journal's, since both begin at
	// random: what the model has for each, by scope.
	versions map[attend.Scope]uint64
	landed   []attend.Write
	copied   *world // what can be put in place
}

// copy copies what is stored.
func (w *world) copy() *world {
	return &world{b: w.b.clone(), versions: maps.Clone(w.versions), landed: slices.Clone(w.landed)}
}

// put puts a copy in place. The model gets there by doing all of it again.
func (w *world) put(c *world) error {
	w.b.restore(c.b)
	w.versions, w.landed, w.model = maps.Clone(c.versions), slices.Clone(c.landed), memory.New()
	for _, wr := range w.landed {
		rec, err := w.model.Load(context.Background(), wr.Scope)
		if err != nil {
			return err
		}
		wr.Expect, wr.Rows = rec.Version, nil
		if out, err := w.model.Commit(context.Background(), []attend.Write{wr}); err != nil || out[0].Conflict() {
			return fmt.Errorf("the model does not take %+v again: %v, %w", wr, out, err)
		}
	}
	return nil
}

// names are scopes with everything in them that a database could trip over.
var names = []attend.Scope{"a", "b", "a/b", "a\x00", "a\n'\"", "\xff\xfe", "", attend.Scope(strings.Repeat("long/", 200)), "x1", "x2", "x3"}

func newWorld(budget, handles int) (*world, error) {
	w := &world{b: newBackend(), budget: budget, model: memory.New(), versions: make(map[attend.Scope]uint64)}
	for range handles {
		s, err := open(w.b, budget)
		if err != nil {
			return nil, err
		}
		w.handles = append(w.handles, s)
	}
	return w, nil
}

// run returns the place of the first step that goes wrong.
func (w *world) run(steps []step) (int, error) {
	for i, s := range steps {
		if err := w.step(s); err != nil {
			return i, fmt.Errorf("step %d, %s on handle %d: %w", i, opNames[s.op], s.handle, err)
		}
		for h, s := range w.handles {
			if err := journal.Audit(s.Journal); err != nil {
				return i, fmt.Errorf("after step %d: overlay of handle %d: %w", i, h, err)
			}
		}
	}
	for h := range w.handles {
		for _, n := range names {
			if err := w.load(h, n); err != nil {
				return len(steps), fmt.Errorf("at the end: %w", err)
			}
		}
		if err := w.due(h, 1<<40); err != nil {
			return len(steps), fmt.Errorf("at the end: %w", err)
		}
	}
	return 0, nil
}

func (w *world) step(s step) error {
	r := rand.New(rand.NewPCG(s.seed, 1))
	h := w.handles[s.handle]
	switch s.op {
	case opRemove:
		scope := names[r.IntN(len(names))]
		if err := h.Remove(context.Background(), scope); err != nil {
			return err
		}
		if w.versions[scope] != 0 {
			w.landed = append(w.landed, attend.Write{Scope: scope, Forget: true})
		}
		delete(w.versions, scope)
		return w.model.Remove(context.Background(), scope)
	case opCopy:
		w.copied = w.copy()
		return nil
	case opPut:
		if w.copied == nil {
			return nil
		}
		return w.put(w.copied)
	case opLoad:
		return w.load(s.handle, names[r.IntN(len(names))])
	case opDue:
		return w.due(s.handle, int64(r.IntN(60)))
	case opReopen:
		again, err := open(w.b, w.budget)
		w.handles[s.handle] = again
		return err
	}
	what := map[int]fault{opBefore: before, opLost: lost, opTwice: twice}[s.op]
	w.b.fault = func() fault { return what }
	var seen error
	if s.op == opSeen {
		w.b.landed = func() { _, seen = h.Load(context.Background(), names[r.IntN(len(names))]) }
	}
	defer func() { w.b.fault, w.b.landed = nil, nil }()
	return errors.Join(w.commit(h, w.writes(r), what), seen)
}

func (w *world) writes(r *rand.Rand) (out []attend.Write) {
	for _, i := range r.Perm(len(names))[:1+r.IntN(5)] {
		wr := attend.Write{Scope: names[i], Expect: w.versions[names[i]]}
		switch r.IntN(8) {
		case 0:
			wr.Expect += uint64(r.IntN(3)) // stale, now and then
		case 1:
			wr.Forget = true
		case 2:
			wr.Snapshot = randomBytes(r, 60)
		default:
			for range r.IntN(3) {
				wr.Inputs = append(wr.Inputs, randomBytes(r, 30))
			}
		}
		switch {
		case r.IntN(3) == 0 && wr.Expect != 0:
			wr.KeepDue = true
		case r.IntN(3) > 0:
			wr.Due = time.UnixMilli(int64(r.IntN(60) - 10))
		}
		if r.IntN(3) == 0 {
			wr.Rows = append(wr.Rows, attend.Row{Scope: wr.Scope, ID: attend.DecisionID(fmt.Sprint(r.Uint32())), Type: attend.RowDecision, At: time.UnixMilli(1)})
		}
		out = append(out, wr)
	}
	return out
}

func randomBytes(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (w *world) commit(h *store, writes []attend.Write, what fault) error {
	mine := make([]attend.Write, len(writes))
	for i, wr := range writes {
		mine[i] = wr
		rec, err := w.model.Load(context.Background(), wr.Scope)
		if err != nil {
			return err
		}
		if mine[i].Expect = rec.Version; wr.Expect != w.versions[wr.Scope] {
			mine[i].Expect = 1 << 62 // a conflict here as there
		}
	}
	out, err := h.Commit(context.Background(), writes)
	if what == before || what == lost {
		// All conflicts is no transaction, so it may well have no error.
		if err != nil && !errors.Is(err, errFault) {
			return err
		}
		if err == nil && slices.ContainsFunc(out, func(o attend.Outcome) bool { return !o.Conflict() }) {
			return errors.New("the commit has no error")
		}
		if what == before {
			return nil
		}
	} else if err != nil {
		return err
	}
	want, err := w.model.Commit(context.Background(), mine)
	if err != nil {
		return err
	}
	for i := range want {
		scope := writes[i].Scope
		if !want[i].Conflict() {
			w.landed = append(w.landed, writes[i])
		}
		switch {
		case out != nil && out[i].Conflict() != want[i].Conflict():
			return fmt.Errorf("write of %q: conflict is %v, want %v", scope, out[i].Conflict(), want[i].Conflict())
		case want[i].Conflict():
		case writes[i].Forget:
			delete(w.versions, scope)
		case out != nil:
			w.versions[scope] = out[i].Version
		default:
			rec, err := h.Load(context.Background(), scope) // who got no answer has to ask
			if err != nil {
				return err
			}
			w.versions[scope] = rec.Version
		}
		if v := writes[i].Expect; v != 0 && !want[i].Conflict() && !writes[i].Forget && w.versions[scope] != v+1 {
			return fmt.Errorf("write of %q at version %d makes %d", scope, v, w.versions[scope])
		}
	}
	return nil
}

func (w *world) load(handle int, scope attend.Scope) error {
	got, err := w.handles[handle].Load(context.Background(), scope)
	if err != nil {
		return err
	}
	want, err := w.model.Load(context.Background(), scope)
	if err != nil {
		return err
	}
	same := got.Version == w.versions[scope] && bytes.Equal(got.Snapshot, want.Snapshot) && (got.Snapshot == nil) == (want.Snapshot == nil) &&
		slices.EqualFunc(got.Tail, want.Tail, bytes.Equal)
	if !same {
		return fmt.Errorf("Load(%.20q) on handle %d = %+v, want %+v at version %d", scope, handle, got, want, w.versions[scope])
	}
	for _, b := range append(got.Tail, got.Snapshot) {
		clear(b) // it is the caller's
	}
	return nil
}

func (w *world) due(handle int, now int64) error {
	list := func(s attend.ScopeStore) (out []attend.Scope, err error) {
		for scope, err := range s.Due(context.Background(), time.UnixMilli(now)) {
			if err != nil {
				return nil, err
			}
			out = append(out, scope)
		}
		return out, nil
	}
	got, err := list(w.handles[handle])
	if err != nil {
		return err
	}
	want, err := list(w.model)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("Due(%d) on handle %d = %.20q, want %.20q", now, handle, got, want)
	}
	return nil
}

// Random calls on one or several Journals and on the memory store: the answers
// are the same, whatever of it is folded.
func TestModel(t *testing.T) {
	for seed := range uint64(*seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		budget, handles := []int{1, 400, 3000, 1 << 20}[r.IntN(4)], 1+r.IntN(3)
		steps := drawSteps(r, 20+r.IntN(200), handles)
		try := func(steps []step) (int, error) {
			w, err := newWorld(budget, handles)
			if err != nil {
				return 0, err
			}
			return w.run(steps)
		}
		at, err := try(steps)
		if err == nil {
			continue
		}
		steps = shrink(steps[:min(at+1, len(steps))], func(s []step) bool { _, err := try(s); return err != nil })
		_, err = try(steps)
		var told []string
		for _, s := range steps {
			told = append(told, fmt.Sprintf("%s on %d (%d)", opNames[s.op], s.handle, s.seed))
		}
		t.Fatalf("seed %d, budget %d, %d handles: %v\nshortest run: %s", seed, budget, handles, err, strings.Join(told, "; "))
	}
}

// shrink leaves steps out as long as it still fails.
func shrink(steps []step, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at+size <= len(steps); {
			if s := slices.Delete(slices.Clone(steps), at, at+size); fails(s) {
				steps, shorter = s, true
			} else {
				at += size
			}
		}
		if !shorter || size > 1 {
			if size == 1 {
				break
			}
			size /= 2
		}
	}
	return steps
}
