package machine

import (
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// ms is a moment in Unix milliseconds; 0 is none.
type ms int64

func moment(t time.Time) ms {
	if t.IsZero() {
		return 0
	}
	return ms(t.UnixMilli())
}

func (m ms) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m))
}

func (m ms) add(d time.Duration) ms { return m + ms(d/time.Millisecond) }

// A State is the whole of one scope. It is a value: [Step] never changes its
// argument, so a State may be kept, compared and stepped again. The zero State
// is a scope that does not exist.
//
// What always holds:
//   - slot and held are never both set;
//   - an open window over MaxEvents holds acts alone, and waits for its slot;
//   - nothing is due at or before now while the slot is free;
//   - every event of a window is in that window's ids;
//   - numbers of windows, entries and attempts are below serial, and no two of
//     a scope's lives share one.
type State struct {
	scope  attend.Scope // empty: the zero State
	policy *Policy      // never changed in place
	key    key
	serial uint64 // the next number
	now    ms     // time of the last input that changed something
	stored ms     // the due time that the store has, a lower bound (E46)

	writers writers
	cursors []cursor         // sorted by key
	seen    [2]ids           // remembered acts, and other events
	brought [2]int           // how many the last push or batch held of each
	recent  []attend.Verdict // oldest first

	open pile
	held *held
	slot *slot

	decisions lane
	letters   lane
}

type cursor struct {
	key   string
	place attend.Cursor
}

// memory is the index in State.seen for an event of this kind.
func memory(k attend.Kind) int {
	if k.Act() {
		return 0
	}
	return 1
}

// A pile is events that have not settled.
type pile struct {
	acts, rest seq    // rest: consequence and context
	ids        ids    // of all of them
	count      uint64 // order of the next event
	contexts   int    // among rest
	bytes      int
	opened     ms // when the first event was taken in
	dropped    int
	gap        bool
	waits      int

	// Deadlines that its events set, and when it was told to settle; 0: none.
	age, closing, continuous, passive ms
	flush, forced, ended              ms
}

func (p *pile) len() int { return p.acts.n + p.rest.n }

// judgeable reports whether there is more in p than the agent's own output.
func (p *pile) judgeable() bool { return p.len() > p.contexts }

// A held window was judged wait.
type held struct {
	pile
	until ms
}

// A closed window has settled. It never changes.
type closed struct {
	id              attend.DecisionID
	entries         []*entry
	reason          attend.Reason
	opened, settled ms
	dropped, waits  int
	gap             bool
	bytes           int
}

// A lease says who works on something. The zero lease is nobody's.
type lease struct {
	attempt uint64 // number of the current or last attempt; 0: none yet
	owner   uint64
	until   ms // 0: not leased
	ready   ms // when it may be claimed
	fails   int
}

// due is when the work can be claimed, or claimed again.
func (l *lease) due() ms {
	if l.until != 0 {
		return l.until
	}
	return l.ready
}

// free reports whether the work can be claimed at a time.
func (l *lease) free(at ms) bool { return l.due() <= at }

// A slot is the window that is being judged, or waits for it.
type slot struct {
	*closed
	ids   ids
	num   uint64
	lease lease
	// since is when the judge's account first failed for this window, outages
	// how often; message is the last error.
	since   ms
	outages int
	message string
}

// A job is what a lane holds: a decision, or a dead letter. It never changes
// but by being replaced.
type job struct {
	num      uint64
	window   *closed
	decided  ms // of a decision, also within a letter of stage sink
	judgment attend.Judgment
	stage    attend.Stage // empty for a decision
	message  string
	attempts int
	lease    lease
}

func (j *job) bytes() int { return j.window.bytes + len(j.message) }

// A lane is jobs in the order in which they are worked.
type lane struct {
	jobs  []*job
	bytes int
}

func (l lane) push(j *job) lane {
	return lane{append(slices.Clip(l.jobs), j), l.bytes + j.bytes()}
}

// remove returns l without its i-th job.
func (l lane) remove(i int) lane {
	return lane{slices.Concat(l.jobs[:i], l.jobs[i+1:]), l.bytes - l.jobs[i].bytes()}
}

func (l lane) replace(i int, j *job) lane {
	b := l.bytes - l.jobs[i].bytes() + j.bytes()
	l.jobs = slices.Clone(l.jobs)
	l.jobs[i] = j
	return lane{l.jobs, b}
}

func (l lane) index(num uint64) int {
	return slices.IndexFunc(l.jobs, func(j *job) bool { return j.num == num })
}

// next is the place of the letter to work on next, -1 where there is none: the
// one that is leased, else the first that is ready, else the one that will be
// ready first. So a letter that failed holds back no other.
func (l lane) next(at ms) int {
	best := -1
	for i, j := range l.jobs {
		if j.lease.until != 0 {
			return i
		}
		if best < 0 || l.jobs[best].lease.ready > max(at, j.lease.ready) {
			best = i
		}
	}
	return best
}

// idle reports whether the scope may forget itself (E42).
func (s *State) idle() bool {
	return s.open.acts.n == 0 && s.held == nil && s.slot == nil &&
		len(s.decisions.jobs) == 0 && len(s.letters.jobs) == 0
}

// bare reports whether there is nothing to forget but source cursors, which
// stay.
func (s *State) bare() bool {
	return s.idle() && len(s.cursors) > 0 && s.open.rest.n == 0 && s.open.dropped == 0 &&
		s.seen[0].n == 0 && s.seen[1].n == 0 && len(s.recent) == 0 && s.writers.last.id == 0
}

// due is when the scope wants to be looked at next; 0: never.
func (s *State) due() ms {
	if s.scope == "" {
		return 0
	}
	var d ms
	soonest := func(t ms) {
		if t != 0 && (d == 0 || t < d) {
			d = t
		}
	}
	switch {
	case s.slot == nil:
		soonest(s.ripe())
	default:
		soonest(s.slot.lease.due())
	}
	if len(s.decisions.jobs) > 0 {
		soonest(s.decisions.jobs[0].lease.due())
	}
	if i := s.letters.next(s.now); i >= 0 {
		soonest(s.letters.jobs[i].lease.due())
	}
	if d == 0 && s.policy.IdleExpiry > 0 && s.idle() && !s.bare() {
		d = s.now.add(s.policy.IdleExpiry)
	}
	return d
}

// busy returns the ids of the window that is held or in the slot.
func (s *State) busy() *ids {
	switch {
	case s.slot != nil:
		return &s.slot.ids
	case s.held != nil:
		return &s.held.ids
	}
	return new(ids)
}
