package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
	"github.com/google/go-cmp/cmp"
)

// Groups: a process with many scopes commits their writes in one call. What
// each scope holds after a round of such commits is known beforehand, byte for
// byte, since the machine is a pure function.

// groupRounds is what happens to each of four scopes, a column each. An
// exclamation mark makes a write bring a snapshot, and not its inputs.
var groupRounds = [][4]string{
	{"flush a1", "flush b1", "consequence c1", "closing d1"},
	{"claim", "claim", "consequence! c2", "tick"},
	{"judged queue", "judged skip", "flush c3", "claim"},
	{"claim", "closing b2", "claim", "judged interrupt"},
	{"done", "tick", "judged! ask", "consequence d2"},
	{"closing! a2", "claim!", "claim", "claim"},
	{"tick!", "judged skip", "done", "done"},
	{"claim", "forget", "forget", "forget"},
	{"judged note", "flush! b1", "consequence c4", "flush! d3"},
	{"claim", "claim", "flush c5", "claim"},
	{"done", "judged queue", "claim", "judged skip"},
}

const groupPause = 2 * time.Minute // between rounds

func groupScope(i int) attend.Scope { return attend.Scope(fmt.Sprint("group/", i+1)) }

// A groupWrite is one scope's part of a round.
type groupWrite struct {
	scope    attend.Scope
	inputs   []machine.Input
	snapshot bool // not the inputs, but what they make
}

// write makes the write on a state, or reports that it has landed.
func (g *groupWrite) write(rec attend.Record) (w attend.Write, landed bool, err error) {
	s, err := machine.Replay(rec)
	if err != nil {
		return w, false, fmt.Errorf("Load(%q) gives what can't be read: %w", g.scope, err)
	}
	w = attend.Write{Scope: g.scope, Expect: rec.Version, KeepDue: rec.Version != 0}
	landed = true
	for _, in := range g.inputs {
		after, eff := machine.Step(s, in)
		if !eff.Changed {
			continue
		}
		s, landed = after, false
		w.Inputs, w.Rows = append(w.Inputs, machine.EncodeInput(in)), append(w.Rows, eff.Rows...)
		if eff.MoveDue {
			w.Due, w.KeepDue = eff.Due, false
		}
		w.Forget = eff.Forget
	}
	if g.snapshot {
		w.Snapshot, w.Inputs = machine.EncodeState(s), nil
	}
	return w, landed, nil
}

// A groupPlan is the rounds, and what there is to be after them.
type groupPlan struct {
	rounds [][]groupWrite
	states [4]machine.State
	due    [4]time.Time
	rows   [4][]attend.Row
}

// planGroups works the rounds out without a store.
func planGroups() *groupPlan {
	policy := machine.DefaultPolicy()
	policy.IdleExpiry = groupPause / 2
	p := new(groupPlan)
	for n, row := range groupRounds {
		at := noon.Add(time.Duration(n) * groupPause)
		var round []groupWrite
		for i, what := range row {
			g := groupWrite{scope: groupScope(i), snapshot: strings.Contains(what, "!")}
			if p.states[i].Scope() == "" {
				g.inputs = append(g.inputs, machine.Configure{
					At: at, Scope: g.scope, Seed: machine.Seed{byte(i + 1), byte(n), 23: 1}, Policy: &policy,
				})
			}
			g.inputs = append(g.inputs, groupInput(p.states[i], strings.ReplaceAll(what, "!", ""), at, uint64(n+1)))
			round = append(round, g)
			for _, in := range g.inputs {
				after, eff := machine.Step(p.states[i], in)
				if !eff.Changed {
					panic(fmt.Sprintf("conformance: round %d: %s changes nothing", n+1, what))
				}
				p.states[i], p.rows[i] = after, append(p.rows[i], eff.Rows...)
				if eff.MoveDue || eff.Forget {
					p.due[i] = eff.Due
				}
			}
		}
		p.rounds = append(p.rounds, round)
	}
	return p
}

// groupInput makes an input for a state, from its name.
func groupInput(s machine.State, what string, at time.Time, number uint64) machine.Input {
	const owner = 7
	verb, arg, _ := strings.Cut(what, " ")
	switch verb {
	case "tick":
		return machine.Tick{At: at}
	case "forget":
		return machine.Forget{At: at}
	case "claim":
		lane, num := machine.LaneJudge, s.Work(at).Judge
		if num == 0 {
			lane, num = machine.LaneDecision, s.Work(at).Decision
		}
		return machine.Claim{At: at, Lane: lane, Num: num, Owner: owner, Until: at.Add(2 * groupPause)}
	}
	// What is leased shows when its lease has ended.
	leased := s.Work(at.Add(10 * groupPause))
	switch verb {
	case "judged":
		return machine.Judged{At: at, Num: leased.Judge, Judgment: attend.Judgment{Route: attend.Route(arg)}}
	case "done":
		return machine.Done{At: at, Lane: machine.LaneDecision, Num: leased.Decision}
	}
	e, err := readEvent(arg + ":" + verb)
	if err != nil || !storyKind(e).Valid() {
		panic("conformance: unknown input: " + what)
	}
	e.At, e.Kind = at, storyKind(e)
	return machine.Arrive{At: at, Writer: owner, Number: number, Events: []attend.Event{e}}
}

// A groupFault is what happens to one commit of a group.
type groupFault struct {
	name  string
	lands int  // so many of its writes land, the first ones; -1: all
	dies  bool // and the process dies, else it hears of an error
}

var groupFaults = []groupFault{
	{"the process dies just before", 0, true},
	{"the process dies just after", -1, true},
	{"the answer is lost, though it landed, of", -1, false},
	{"nothing lands, and the process hears of an error, of", 0, false},
	// A store that writes scope by scope may stop anywhere.
	{"the process dies in the middle of", 2, true},
	{"half of the writes land, and the process hears of an error, of", 2, false},
}

// crashGroups commits the rounds, with each fault at each of their commits.
func crashGroups(ctx context.Context, e Env) error {
	r := groupRun{plan: planGroups(), handle: e.Store(), reopen: e.Reopen}
	if err := r.run(ctx, 0, groupFault{}); err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	runs := 0
	for n := range r.plan.rounds {
		for _, f := range groupFaults {
			if err := r.run(ctx, n+1, f); err != nil {
				return fmt.Errorf("%s commit %d (%s): %w", f.name, n+1, strings.Join(groupRounds[n][:], ", "), err)
			}
			runs++
		}
	}
	e.logf("%d commits of %d writes each, %d runs with a fault, %d commits in all; all agree",
		len(r.plan.rounds), len(groupRounds[0]), runs, r.all)
	return nil
}

// A groupRun commits the rounds of a plan, again and again.
type groupRun struct {
	plan    *groupPlan
	handle  attend.ScopeStore
	reopen  func(attend.ScopeStore) attend.ScopeStore // nil: there is one handle
	store   attend.ScopeStore                         // of the process that lives
	commits int                                       // of this run
	all     int
}

// run commits the rounds with a fault at one commit, and checks what is there
// afterwards. The store holds none of the scopes before and after.
func (r *groupRun) run(ctx context.Context, at int, f groupFault) (err error) {
	var opened []attend.ScopeStore
	defer func() { err = errors.Join(err, r.clear(ctx, opened)) }()
	b, err := r.handle.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	r.store, r.commits = r.handle, 0
	for n, round := range r.plan.rounds {
		for done := false; !done; {
			if done, err = r.commit(ctx, round, at, f); err != nil {
				return fmt.Errorf("at round %d: %w", n+1, err)
			}
			if !done && f.dies && r.reopen != nil {
				r.store = r.reopen(r.handle)
				opened = append(opened, r.store)
			}
		}
	}
	return r.check(ctx, attend.LogCursor{Epoch: b.Epoch, Position: b.Newest})
}

// commit commits what has not landed of a round, in one call, and reports
// whether it is known to have landed.
func (r *groupRun) commit(ctx context.Context, round []groupWrite, at int, f groupFault) (done bool, err error) {
	var writes []attend.Write
	for i := range round {
		rec, err := load(ctx, r.store, round[i].scope)
		if err != nil {
			return false, err
		}
		w, landed, err := round[i].write(rec)
		if err != nil {
			return false, err
		}
		if !landed {
			writes = append(writes, w)
		}
	}
	if len(writes) == 0 {
		return true, nil
	}
	r.commits++
	r.all++
	fails := r.commits == at
	if fails && f.lands == 0 {
		return false, nil
	}
	if fails && f.lands > 0 {
		writes = writes[:f.lands]
	}
	out, err := commit(ctx, r.store, writes...)
	if err != nil {
		return false, err
	}
	for i, o := range out {
		if o.Conflict() {
			return false, fmt.Errorf("%q is a conflict at the version that Load had just shown", writes[i].Scope)
		}
	}
	return !fails, nil
}

// check compares the store with the plan.
func (r *groupRun) check(ctx context.Context, began attend.LogCursor) error {
	rows, err := read(ctx, r.handle, attend.Query{After: began, Types: everything})
	if err != nil {
		return err
	}
	for i, want := range r.plan.states {
		scope := groupScope(i)
		rec, err := load(ctx, r.handle, scope)
		if err != nil {
			return err
		}
		got, err := machine.Replay(rec)
		if err != nil {
			return fmt.Errorf("Load(%q) gives what can't be read: %w", scope, err)
		}
		if !bytes.Equal(machine.EncodeState(got), machine.EncodeState(want)) {
			return fmt.Errorf("%q is in another state than its inputs make; its windows (-want +got):\n%s", scope, cmp.Diff(groupView(want), groupView(got)))
		}
		var found []string
		for _, e := range rows {
			if e.Scope == scope {
				found = append(found, groupRow(e.Row))
			}
		}
		var rowsWanted []string
		for _, row := range r.plan.rows[i] {
			rowsWanted = append(rowsWanted, groupRow(row))
		}
		if err := same(fmt.Sprintf("rows of %q", scope), rowsWanted, found); err != nil {
			return err
		}
	}
	return r.checkDue(ctx)
}

// checkDue checks that each scope is due at its time and not before.
func (r *groupRun) checkDue(ctx context.Context) error {
	for _, at := range r.plan.due {
		for _, now := range []time.Time{at, at.Add(-time.Millisecond)} {
			var want []attend.Scope
			for i, due := range r.plan.due {
				if !due.IsZero() && !due.After(now) {
					want = append(want, groupScope(i))
				}
			}
			if err := isDue(ctx, r.handle, now, want...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *groupRun) clear(ctx context.Context, opened []attend.ScopeStore) error {
	var errs []error
	for i := range r.plan.states {
		errs = append(errs, r.handle.Remove(ctx, groupScope(i)))
	}
	return errors.Join(append(errs, closeAll(opened))...)
}

// groupRow is a row as text.
func groupRow(r attend.Row) string {
	return fmt.Sprintf("%s %s %s %d %s", r.Scope, r.Type, r.ID, r.At.UnixMilli(), r.Body)
}

// groupView is what is seen of a state.
func groupView(s machine.State) []string {
	open := s.Window()
	slot, _ := s.Slot()
	out := []string{"open " + windowLine(&open), "slot " + windowLine(&slot.Window), "time " + s.Now().UTC().String()}
	for _, d := range s.Decisions() {
		out = append(out, "decision "+decisionLine(&d))
	}
	for _, v := range s.Recent() {
		out = append(out, "verdict "+judgmentLine(v.Judgment))
	}
	return out
}
