package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/google/go-cmp/cmp"
)

// The crash suite tells stories, once as they are, and then once more for each
// of their commits: the process dies just before it, dies just after it, or
// lives on without its answer. The next process finds what the store holds and
// goes on, producers repeat what nobody acknowledged, and time moves past the
// dead one's leases. Each time the same must be heard in the end.
//
// A story begins with nothing and is short, so that a case is a few thousand
// commits. Time is data, so a slow store is as right as a fast one.

func crashCases() []Case {
	return []Case{
		{"crash/before", "A ScopeStore holds each scope's latest snapshot, the inputs committed since it, when it is due, and the decision log.", "v0.1", crashing(chapters, attendtest.FaultBefore)},
		{"crash/after", "What one write brings lands together or not at all", "v0.1", crashing(chapters, attendtest.FaultAfter)},
		{"crash/lost", "An error means that the outcome of the whole call is unknown.", "v0.1", crashing(chapters, attendtest.FaultLost)},
		{"crash/scopes", "Due yields the scopes whose due time is at or before now, oldest first.", "v0.1", crashing(crossings, anyFault...)},
		{"crash/processes", "Version changes with each write and is never used again, not after the scope was removed either", "v0.1", crashing(pairs, anyFault...)},
		{"crash/groups", "The answer has one Outcome a write, in the same order.", "v0.1", crashGroups},
	}
}

var anyFault = []attendtest.Fault{attendtest.FaultBefore, attendtest.FaultAfter, attendtest.FaultLost}

// crashing is a case that tells stories with faults.
func crashing(stories func() []*story, faults ...attendtest.Fault) func(context.Context, Env) error {
	return func(ctx context.Context, e Env) (err error) {
		var sum crashSum
		t := newTeller(e, faults...)
		defer func() { err = errors.Join(err, t.close()) }()
		for _, s := range stories() {
			one, err := t.tell(ctx, s)
			if err != nil {
				return fmt.Errorf("story %s: %w", s.name, err)
			}
			sum.add(one)
		}
		e.logf("%s; all agree", sum)
		return nil
	}
}

// A crashSum is what was told.
type crashSum struct {
	stories int
	commits int // of the stories, once each
	runs    int // with a fault
	all     int // commits of all runs
	saw     map[string]int
}

func (s *crashSum) add(o crashSum) {
	s.stories, s.commits, s.runs, s.all = s.stories+o.stories, s.commits+o.commits, s.runs+o.runs, s.all+o.all
	if s.saw == nil {
		s.saw = make(map[string]int)
	}
	for what, n := range o.saw {
		s.saw[what] += n
	}
}

// String is the sum as a line.
func (s crashSum) String() string {
	return fmt.Sprintf("%d stories of %d commits, %d runs with a fault, %d commits in all", s.stories, s.commits, s.runs, s.all)
}

// A teller tells stories on one store.
type teller struct {
	faults []attendtest.Fault
	handle attend.ScopeStore                         // the first process's
	look   attend.ScopeStore                         // nobody's, another one if there is
	reopen func(attend.ScopeStore) attend.ScopeStore // nil: there is one handle
}

func newTeller(e Env, faults ...attendtest.Fault) *teller {
	t := &teller{faults: faults, handle: e.Store(), reopen: e.Reopen}
	t.look = t.handle
	if t.reopen != nil {
		t.look = t.reopen(t.handle)
	}
	return t
}

func (t *teller) close() error {
	if t.reopen == nil {
		return nil
	}
	return closeAll([]attend.ScopeStore{t.look})
}

func (t *teller) run(ctx context.Context, s *story, f fault) (*crashRun, heard, error) {
	r := &crashRun{teller: t, story: s, fault: f}
	h, err := r.play(ctx)
	return r, h, err
}

// tell tells a story as it is, and then with each fault at each commit.
func (t *teller) tell(ctx context.Context, s *story) (crashSum, error) {
	r, base, err := t.run(ctx, s, fault{})
	if err != nil {
		return crashSum{}, fmt.Errorf("without a fault: %w", err)
	}
	if err := s.check(&base); err != nil {
		return crashSum{}, fmt.Errorf("without a fault: %w", err)
	}
	sum := crashSum{stories: 1, saw: r.saw}
	for _, c := range r.commits {
		sum.commits += len(c)
	}
	sum.all = sum.commits
	for who, commits := range r.commits {
		for n := range commits {
			for _, what := range t.faults {
				f := fault{what: what, who: who, at: n + 1}
				again, got, err := t.run(ctx, s, f)
				if err == nil {
					err = base.agrees(&got, what)
				}
				if err != nil {
					return sum, fmt.Errorf("%s, at %q: %w", f.describe(r), commits[n].line, err)
				}
				sum.runs++
				for _, c := range again.commits {
					sum.all += len(c)
				}
			}
		}
	}
	return sum, nil
}

func (f fault) describe(base *crashRun) string {
	what := map[attendtest.Fault]string{
		attendtest.FaultBefore: "the process dies just before",
		attendtest.FaultAfter:  "the process dies just after",
		attendtest.FaultLost:   "the answer is lost, though it landed, of",
	}[f.what]
	which := fmt.Sprintf("commit %d of %d", f.at, len(base.commits[f.who]))
	if len(base.commits) > 1 {
		which += fmt.Sprintf(" of process %d", f.who+1)
	}
	return what + " " + which
}

// check checks what the story itself says of its end.
func (s *story) check(h *heard) error {
	if err := same("decisions and dead letters", arranged(s.want), arranged(h.short)); err != nil {
		return err
	}
	if err := same("events that no window has settled with", arranged(s.left), arranged(h.open)); err != nil {
		return err
	}
	for _, st := range s.everyStep() {
		for _, e := range st.events {
			want := 1
			switch {
			case st.do == "rival":
				want = 0
			case slices.Contains(s.twice, e.ID):
				want = 2
			}
			id := identity(st.scope, attend.EventRef{Source: st.source, ID: e.ID})
			if got := h.fates[id]; len(got) != want {
				return fmt.Errorf("event %s came to %d ends, want %d: %q", id, len(got), want, got)
			}
		}
	}
	return nil
}

// arranged sorts lines by scope. A scope's decisions keep their order; dead
// letters have none.
func arranged(lines []string) []string {
	key := func(line string) string {
		words := strings.Fields(line)
		if slices.Contains(attend.AllRoutes(), attend.Route(words[1])) {
			return words[0]
		}
		return words[0] + " ~ " + line
	}
	return slices.SortedStableFunc(slices.Values(lines), func(a, b string) int { return strings.Compare(key(a), key(b)) })
}

// agrees compares a run with the one without a fault.
func (h *heard) agrees(got *heard, f attendtest.Fault) error {
	if diff := cmp.Diff(h.ending, got.ending); diff != "" {
		return fmt.Errorf("it ends otherwise than without a fault (-without +with):\n%s", diff)
	}
	// A dead process may have asked without committing the answer, and its lease
	// counts as a failed attempt. One that lives on knows its own leases.
	more := 1
	if f == attendtest.FaultLost {
		more = 0
	}
	if n := got.calls - h.calls; n > more {
		return fmt.Errorf("the judge was asked %d times more than without a fault, want at most %d", n, more)
	}
	if n := got.attempts - h.attempts; n > more {
		return fmt.Errorf("the sink and the handler were called %d times more than without a fault, want at most %d", n, more)
	}
	for line, n := range got.tries {
		if want := h.tries[line]; n < want || n > want+more {
			return fmt.Errorf("%s\nafter %d failed attempts, want %d to %d", line, n, want, want+more)
		}
	}
	return nil
}
