package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	attend "github.com/attend-go/attend/core"
)

// Config says how a Journal works. The zero Config is a good one.
type Config struct {
	// Budget is how many bytes of records may wait to be folded, in the journal
	// and in memory. Above it more is folded with each commit. More memory is
	// less work: a scope that changes often is folded once for all its changes. It
	// is also what opening has to read.
	// Zero: 128 MiB, which only a busy store comes to.
	Budget int
}

// A Journal is the part of an [attend.ScopeStore] that keeps scopes, on a
// [Backend]. Its methods Load, Commit, Due and Remove are those of the
// contract, and may be called from many goroutines at once. Their errors are
// the Backend's, or one that is [attend.ErrClosed], [attend.ErrCorrupt],
// [attend.ErrNewer] or [attend.ErrTooLarge], with what was being done.
type Journal struct {
	b      Backend
	budget int
	turn   chan struct{} // who is between a transaction and the overlay has put a token in

	mu      sync.Mutex // held for work in memory alone
	overlay *overlay
	closed  bool
}

// Open returns the Journal on b, whose records it reads once. The Backend stays
// the caller's: it is closed after the Journal.
func Open(ctx context.Context, b Backend, c Config) (*Journal, error) {
	if c.Budget < 0 {
		return nil, &attend.InvalidError{Field: "Budget", Want: "0 or more bytes"}
	}
	if c.Budget == 0 {
		c.Budget = 128 << 20
	}
	j := &Journal{b: b, budget: c.Budget, turn: make(chan struct{}, 1), overlay: newOverlay(1)}
	err := j.view(ctx, func(r Reader, floor uint64) error { return j.catchUp(r, floor, func(*overlay) error { return nil }) })
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return j, nil
}

// Close makes every later call answer [attend.ErrClosed]. Calls that are on
// their way go on.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
}

// enter returns the newest record that is known of, unless the call has no
// business here any more.
func (j *Journal) enter(ctx context.Context) (applied uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, attend.ErrClosed
	}
	return j.overlay.applied, nil
}

// viewTries is how often view begins a read transaction.
const viewTries = 3

// view calls f with read transactions until one is not behind what this process
// knows. Floor is a record that it has to show. Where others commit faster than
// f reads, the last one is a transaction that writes, during which nobody does.
func (j *Journal) view(ctx context.Context, f func(r Reader, floor uint64) error) error {
	for try := 0; ; try++ {
		floor, err := j.enter(ctx)
		if err != nil {
			return err
		}
		if try == viewTries {
			break
		}
		behind := false
		err = j.b.View(ctx, func(r Reader) error {
			err := f(r, floor)
			behind = errors.Is(err, errBehind)
			return err
		})
		if err == nil || !behind {
			return err
		}
	}
	nothing := false
	err := j.b.Update(ctx, func(tx Tx) error {
		err := f(tx, exclusive)
		if nothing = err == nil; nothing {
			err = errNothing
		}
		return err
	})
	if nothing {
		return nil
	}
	return err
}

// Load returns a copy of what is kept of the scope.
func (j *Journal) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	var rec attend.Record
	err := j.view(ctx, func(r Reader, floor uint64) error {
		rec = attend.Record{}
		var e entry
		found := false
		err := j.catchUp(r, floor, func(o *overlay) error {
			if at := o.scopes[scope]; at != nil {
				e, found = *at, true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if found && e.whole != 0 {
			if e.version != 0 {
				rec = e.over(pieces{}, 0).record(e.version)
			}
			return nil
		}
		s, err := r.State(scope)
		if err != nil || s.Version == 0 && !found {
			return err
		}
		p, err := base(scope, s)
		if err != nil {
			return err
		}
		if found {
			p, s.Version = e.over(p, s.Seq), e.version
		}
		rec = p.record(s.Version)
		return nil
	})
	if err != nil {
		return attend.Record{}, fmt.Errorf("load scope %.40q: %w", scope, err)
	}
	return rec, nil
}

// base is the folded state that an entry goes on from.
func base(scope attend.Scope, s State) (pieces, error) {
	if s.Version == 0 {
		return pieces{}, fmt.Errorf("folded state of scope %.40q is missing: %w", scope, attend.ErrCorrupt)
	}
	return decodeState(scope, s.Body)
}
