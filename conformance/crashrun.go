package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
)

// A fault is what happens at one commit of one process. The zero fault is none.
type fault struct {
	what attendtest.Fault
	who  int // the process, from 0
	at   int // its commit, from 1
}

// A crashRun is a story on its way through a store, with one fault.
type crashRun struct {
	*teller
	story  *story
	fault  fault
	opened []attend.ScopeStore // the handles of later processes

	world    *world
	procs    []*process // by their numbers; two are one where one has died
	settings []string
	now      *step            // what is happening
	commits  [][]*step        // by process, at which step each was
	began    attend.LogCursor // behind what the log held before
	saw      map[string]int   // kinds of writes and inputs that landed
	err      error            // of what happened meanwhile
}

// A process is an engine without a clock, on a store of its own.
type process struct {
	r      *crashRun
	who    int
	store  *attendtest.CrashStore
	drive  *engine.Drive
	ctx    context.Context
	cancel context.CancelFunc

	landed    int          // commits that it knows to have landed
	meanwhile func() error // when the answer to its next commit is lost
	waits     bool         // for that answer, so nothing else can be done in it
}

// farOff is behind everything that happens.
var farOff = noon.Add(100 * 365 * 24 * time.Hour)

// lastRest is how long it takes, behind the last step, until nothing moves.
const lastRest = 30 * time.Minute

// play tells the story to its end, and returns what was heard. The store holds
// none of its scopes before and after.
func (r *crashRun) play(ctx context.Context) (_ heard, err error) {
	r.world, r.saw = newWorld(r.story), make(map[string]int)
	r.settings = r.story.settings
	defer func() { err = errors.Join(err, r.clear(ctx)) }()
	for _, scope := range r.story.scopes() {
		if err := unknown(ctx, r.look, scope); err != nil {
			return heard{}, fmt.Errorf("before it begins: %w", err)
		}
	}
	b, err := r.look.Log().Bounds(ctx)
	if err != nil {
		return heard{}, fmt.Errorf("Bounds: %w", err)
	}
	r.began = attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}
	for who := range r.story.processes() {
		r.commits = append(r.commits, nil)
		p, err := r.start(ctx, who, nil)
		if err != nil {
			return heard{}, err
		}
		r.procs = append(r.procs, p)
	}
	for i := range r.story.steps {
		r.now = &r.story.steps[i]
		if err := r.step(ctx, r.now); err != nil {
			return heard{}, fmt.Errorf("at %q: %w", r.now.line, err)
		}
	}
	if err := r.advance(ctx, r.now.at+lastRest); err != nil {
		return heard{}, fmt.Errorf("after %q: %w", r.now.line, err)
	}
	for _, scope := range r.story.scopes() {
		if err := r.rests(ctx, scope); err != nil {
			return heard{}, fmt.Errorf("at the end: %w", err)
		}
	}
	return r.hear(ctx)
}

// clear removes the scopes and closes the handles of the dead.
func (r *crashRun) clear(ctx context.Context) error {
	var errs []error
	for _, scope := range r.story.scopes() {
		if err := r.look.Remove(ctx, scope); err != nil {
			errs = append(errs, fmt.Errorf("Remove(%q): %w", scope, err))
		}
	}
	for _, p := range r.procs {
		p.cancel()
	}
	return errors.Join(append(errs, closeAll(r.opened))...)
}

// closeAll closes the handles of processes that are gone, as far as they can be
// closed: there are hundreds of them.
func closeAll(opened []attend.ScopeStore) error {
	var errs []error
	for _, s := range opened {
		if c, ok := s.(io.Closer); ok {
			if err := c.Close(); err != nil {
				errs = append(errs, fmt.Errorf("Close: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// start starts a process, in place of old if that is not nil.
func (r *crashRun) start(ctx context.Context, who int, old *process) (*process, error) {
	p := &process{r: r, who: who}
	switch {
	case old != nil:
		p.store = old.store.Reopen()
		p.store.Store = r.another()
	case who > 0:
		p.store = &attendtest.CrashStore{Store: r.another()}
	default:
		p.store = &attendtest.CrashStore{Store: r.handle}
	}
	if n := len(r.commits[who]); r.fault.who == who && r.fault.at > n {
		p.store.At, p.store.Fault = r.fault.at-n, r.fault.what
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	cfg := r.world.config(watched{p.store, p}, r.settings, p.cancel)
	var err error
	if p.drive, err = engine.NewDrive(cfg); err != nil {
		return nil, fmt.Errorf("a process starts: %w", err)
	}
	if err := p.drive.Resume(ctx, farOff); err != nil {
		return nil, fmt.Errorf("a process starts: %w", err)
	}
	return p, nil
}

// another returns a second handle, as far as there is one.
func (r *crashRun) another() attend.ScopeStore {
	if r.reopen == nil {
		return r.handle
	}
	s := r.reopen(r.handle)
	r.opened = append(r.opened, s)
	return s
}

// replace follows a process that has ended. Where another one lives, that one
// goes on alone; it finds the work that was left.
func (r *crashRun) replace(ctx context.Context, p *process) (err error) {
	p.cancel()
	next := p
	for _, q := range r.procs {
		if q != p {
			next = q
		}
	}
	if next == p {
		next, err = r.start(ctx, p.who, p)
	} else if err = next.drive.Resume(ctx, farOff); err != nil {
		err = fmt.Errorf("the other process looks for work: %w", err)
	}
	for i := range r.procs {
		if r.procs[i] == p {
			r.procs[i] = next
		}
	}
	return err
}

// survive is what follows an error of a process: nothing, if it has ended by it
// as it was to.
func (r *crashRun) survive(ctx context.Context, p *process, err error) error {
	switch {
	case err == nil, r.err != nil:
		return r.err
	case p.store.Crashed(), p.ctx.Err() != nil && ctx.Err() == nil:
		return r.replace(ctx, p)
	}
	return err
}

// advance does what is due, in whichever process knows of it first.
func (r *crashRun) advance(ctx context.Context, to time.Duration) error {
	for {
		var p *process
		var at time.Time
		for _, q := range r.procs {
			if q.waits {
				continue
			}
			if t := q.drive.Next(); !t.IsZero() && (at.IsZero() || t.Before(at)) {
				p, at = q, t
			}
		}
		if p == nil || at.After(storyTime(to)) {
			return nil
		}
		if err := r.survive(ctx, p, p.drive.Advance(p.ctx, at)); err != nil {
			return err
		}
	}
}

// rests checks that nothing is under way in a scope.
func (r *crashRun) rests(ctx context.Context, scope attend.Scope) error {
	s, err := r.state(ctx, scope)
	if err != nil {
		return err
	}
	slot, busy := s.Slot()
	if busy {
		return fmt.Errorf("%q does not come to rest: a window of %s is still in its slot", scope, idsOf(slot.Window.Events))
	}
	if d, l := len(s.Decisions()), len(s.Letters()); d+l > 0 {
		return fmt.Errorf("%q does not come to rest: it still has %d decisions and %d dead letters", scope, d, l)
	}
	return nil
}

// state is a scope as the store has it.
func (r *crashRun) state(ctx context.Context, scope attend.Scope) (machine.State, error) {
	rec, err := load(ctx, r.look, scope)
	if err != nil {
		return machine.State{}, err
	}
	s, err := machine.Replay(rec)
	if err != nil {
		return machine.State{}, fmt.Errorf("Load(%q) gives what can't be read: %w", scope, err)
	}
	return s, nil
}

func (s *story) scopes() (all []attend.Scope) {
	for _, st := range s.everyStep() {
		if !slices.Contains(all, st.scope) {
			all = append(all, st.scope)
		}
	}
	return all
}

func (s *story) processes() int {
	n := 1
	for _, st := range s.everyStep() {
		n = max(n, st.by+1)
	}
	return n
}

// watched is the store of a process, watched.
type watched struct {
	*attendtest.CrashStore
	p *process
}

func (w watched) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	r := w.p.r
	r.commits[w.p.who] = append(r.commits[w.p.who], r.now)
	out, err := w.CrashStore.Commit(ctx, writes)
	if err == nil && !out[0].Conflict() {
		w.p.landed++
		r.note(&writes[0])
	}
	if errors.Is(err, attendtest.ErrAnswerLost) && w.p.meanwhile != nil {
		f := w.p.meanwhile
		w.p.meanwhile, w.p.waits = nil, true
		r.err = errors.Join(r.err, f())
		w.p.waits = false
	}
	return out, err
}

// note counts what a write that landed is made of.
func (r *crashRun) note(w *attend.Write) {
	switch {
	case w.Forget:
		r.saw["Forget"]++
		r.saw["scope that ends"]++
	case w.Snapshot != nil:
		r.saw["snapshot"]++
	}
	for _, b := range w.Inputs {
		in, err := machine.DecodeInput(b)
		if err != nil {
			continue
		}
		lane := -1
		switch in := in.(type) {
		case machine.Claim:
			lane = int(in.Lane)
		case machine.Failed:
			lane = int(in.Lane)
		case machine.Done:
			lane = int(in.Lane)
		case machine.GiveBack:
			lane = int(in.Lane)
		default:
		}
		name := strings.TrimPrefix(fmt.Sprintf("%T", in), "machine.")
		if lane >= 0 {
			name += [...]string{" judge", " decision", " letter"}[lane]
		}
		r.saw[name]++
	}
}
