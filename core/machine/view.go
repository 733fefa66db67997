package machine

import (
	"iter"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Scope is the scope that s is the state of, empty for the zero State.
func (s *State) Scope() attend.Scope { return s.scope }

// Policy returns the settings that decide, nil for the zero State. It must not
// be changed.
func (s *State) Policy() *Policy { return s.policy }

// Now is the time of the last input that changed something.
func (s *State) Now() time.Time { return s.now.time() }

// Due is when the scope wants to be looked at next; zero: never. The store has
// it as a lower bound.
func (s *State) Due() time.Time { return s.due().time() }

// Expired reports whether the scope may be forgotten at a time.
func (s *State) Expired(at time.Time) bool {
	return s.scope != "" && s.policy.IdleExpiry > 0 && s.idle() && !s.bare() && moment(at) >= s.now.add(s.policy.IdleExpiry)
}

// Cursor is where a source of the scope is; empty: the scope does not know it.
func (s *State) Cursor(source string) attend.Cursor {
	if i, ok := s.cursor(source); ok {
		return s.cursors[i].place
	}
	return ""
}

// Cursors yields where each source of the scope is, by the source's key.
func (s *State) Cursors() iter.Seq2[string, attend.Cursor] {
	return func(yield func(string, attend.Cursor) bool) {
		for _, c := range s.cursors {
			if !yield(c.key, c.place) {
				return
			}
		}
	}
}

// Last is the engine whose input was the last that carried its id, 0 where
// none did. It has the first go at the scope's work (E36).
func (s *State) Last() uint64 { return s.writers.last.id }

// Window is the open window, without a reason.
func (s *State) Window() attend.Window { return s.open.window(s.scope) }

func (p *pile) window(scope attend.Scope) attend.Window {
	return attend.Window{
		Scope: scope, Events: events(p.appendTo(nil)), Opened: p.opened.time(),
		Waits: p.waits, Dropped: p.dropped, Gap: p.gap,
	}
}

// Held is the held window, and when it is judged again at the latest; false
// where there is none.
func (s *State) Held() (w attend.Window, until time.Time, ok bool) {
	if s.held == nil {
		return attend.Window{}, time.Time{}, false
	}
	return s.held.window(s.scope), s.held.until.time(), true
}

// A Slot is what is known of the window that is being judged.
type Slot struct {
	Window   attend.Window
	Leased   time.Time // until when; zero: nobody judges it now
	Ready    time.Time // when it may be claimed
	Attempts int       // that failed
	Message  string    // of the last failure
}

// Slot is the settled window, and false where there is none.
func (s *State) Slot() (Slot, bool) {
	if s.slot == nil {
		return Slot{}, false
	}
	l := &s.slot.lease
	return Slot{s.slot.window(s.scope), l.until.time(), l.ready.time(), l.fails, s.slot.message}, true
}

// Decisions returns the decisions that the sink has yet to take, oldest first.
func (s *State) Decisions() []attend.Decision {
	var out []attend.Decision
	for _, j := range s.decisions.jobs {
		out = append(out, j.decision(s.scope))
	}
	return out
}

// Letters returns the dead letters that their handler has yet to take.
func (s *State) Letters() []attend.DeadLetter {
	var out []attend.DeadLetter
	for _, j := range s.letters.jobs {
		out = append(out, j.letter(s.scope))
	}
	return out
}

// Recent returns the verdicts that the scope remembers, newest last.
func (s *State) Recent() []attend.Verdict { return append([]attend.Verdict(nil), s.recent...) }

// Size is about how many bytes s takes in memory.
func (s *State) Size() int {
	n := 2048 + s.open.size() + 12*(s.seen[0].n+s.seen[1].n) + s.decisions.bytes + s.letters.bytes +
		512*(len(s.decisions.jobs)+len(s.letters.jobs)+len(s.recent))
	if s.held != nil {
		n += s.held.size()
	}
	if s.slot != nil {
		n += s.slot.bytes + 300*len(s.slot.entries)
	}
	for _, c := range s.cursors {
		n += 64 + len(c.key) + len(c.place)
	}
	return n
}

func (p *pile) size() int { return p.bytes + 300*p.len() }

// Next is when the scope has work to do, its expiry left out; zero: none is in
// sight.
func (s *State) Next() time.Time {
	if s.scope == "" || s.idle() {
		return time.Time{}
	}
	return s.due().time()
}
