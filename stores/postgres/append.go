package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	attend "github.com/attend-go/attend/core"
)

// Appends are committed in groups, as an engine commits a store's writes: what
// gathers while one group is under way is the next. Positions of the log are
// taken under a lock that is held until the commit, so that one group at a time
// in a process is no loss.

// An appending is what one call appends.
type appending struct {
	scope  string
	ids    []string
	bodies [][]byte
	size   int
	done   chan struct{} // closed when err says what became of it
	err    error
}

// An appendQueue is the calls that wait for the group under way.
type appendQueue struct {
	mu      sync.Mutex
	waiting []*appending
	bytes   int // of those
	leading bool
}

// The most that one group holds, and that waits, if it is more than one call.
const (
	maxGroupEvents = 4096
	maxGroupBytes  = 4 << 20
	maxQueueBytes  = 64 << 20
)

// Append adds the events, as [attend.EventLog] says. An error that is an
// [*attend.EventError] or [attend.ErrInvalid] says that nothing was added; after
// any other one it is unknown, and the same events can be appended again. While
// 64 MiB of events wait for the server, more are refused.
func (l *EventLog) Append(ctx context.Context, scope attend.Scope, events []attend.Event) error {
	a := &appending{scope: string(scope), done: make(chan struct{})}
	if err := l.ready(ctx, "append"); err != nil {
		return err
	}
	if err := scope.Check(); err != nil {
		return fmt.Errorf("postgres: append: %w", err)
	}
	for i, e := range events {
		e, err := e.Clean()
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
		body, err := json.Marshal(e)
		if err != nil {
			return &attend.EventError{Index: i, Err: err}
		}
		a.ids, a.bodies = append(a.ids, e.ID), append(a.bodies, body)
		a.size += len(body) + len(e.ID) + len(scope) + 64
	}
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	lead, ok := l.queue.add(a)
	if !ok {
		return errors.New("postgres: append: too much waits already")
	}
	if lead {
		l.start(l.lead)
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		l.queue.leave(a)
		return fmt.Errorf("postgres: append: %w", ctx.Err())
	case <-l.life.Done(): // nobody may lead any more
		l.queue.leave(a)
		return closedError("append")
	}
}

// add reports whether somebody must lead now, and not ok where too much waits.
func (q *appendQueue) add(a *appending) (lead, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 && q.bytes+a.size > maxQueueBytes {
		return false, false
	}
	q.waiting, q.bytes = append(q.waiting, a), q.bytes+a.size
	lead = !q.leading
	q.leading = true
	return lead, true
}

// leave takes out who waits no longer. One that is under way is left alone.
func (q *appendQueue) leave(a *appending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, a); i >= 0 {
		q.waiting, q.bytes = slices.Delete(q.waiting, i, i+1), q.bytes-a.size
	}
}

// take returns the next group; none: the leader may go.
func (q *appendQueue) take() []*appending {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, events, bytes := 0, 0, 0
	for _, a := range q.waiting {
		events, bytes = events+len(a.ids), bytes+a.size
		if n > 0 && (events > maxGroupEvents || bytes > maxGroupBytes) {
			break
		}
		n++
	}
	group := append([]*appending(nil), q.waiting[:n]...)
	for _, a := range group {
		q.bytes -= a.size
	}
	clear(q.waiting[:n])
	if q.waiting = q.waiting[n:]; n == 0 {
		q.waiting, q.leading = nil, false
	}
	return group
}

// lead commits groups until nothing waits.
func (l *EventLog) lead(ctx context.Context) {
	for group := l.queue.take(); len(group) > 0; group = l.queue.take() {
		err := l.commit(ctx, group)
		if code(err) != "" && len(group) > 1 {
			// The server refused it: one of them may be to blame.
			for _, a := range group {
				a.finish(l.commit(ctx, []*appending{a}))
			}
			continue
		}
		for _, a := range group {
			a.finish(err)
		}
	}
}

func (a *appending) finish(err error) {
	a.err = err
	close(a.done)
}

// commit appends a group in one statement. Positions are taken in order, by
// whoever has the turn, until its commit can be seen.
func (l *EventLog) commit(ctx context.Context, group []*appending) error {
	var scopes, ids []string
	var bodies [][]byte
	for _, a := range group {
		for range a.ids {
			scopes = append(scopes, a.scope)
		}
		ids, bodies = append(ids, a.ids...), append(bodies, a.bodies...)
	}
	sql := l.cfg.named(appendText(l.base()))
	added := 0
	// The same ids again add nothing, so that it can be repeated.
	err := l.call(ctx, "append", true, func(ctx context.Context) error {
		return l.onward(ctx, "events", func() error {
			return l.pool.QueryRow(ctx, sql, scopes, ids, bodies).Scan(&added, nil, nil)
		})
	})
	if added > 0 {
		l.hub.kick()
		l.keeper.added(added)
	}
	return err
}

// appendText adds events in order. Whoever has the turn keeps it until its commit
// can be seen, and takes positions under it. Where the turn is missing, max gives
// a row without a base, which fails.
func appendText(base string) string {
	return `WITH turn AS MATERIALIZED (
		SELECT ` + base + ` AS base FROM {turns} t WHERE t.name = 'events' FOR NO KEY UPDATE
	),
	added AS (
		INSERT INTO {events} (base, scope, id, taken, body)
		SELECT t.base, e.scope, e.id, ` + serverMillis + `, e.body
		FROM (SELECT max(base) AS base FROM turn) t, unnest(` + hidden("$1::text[]", "$2::text[]", "$3::bytea[]") + `) WITH ORDINALITY AS e (scope, id, body, n)
		ORDER BY e.n
		ON CONFLICT (scope, id) DO NOTHING RETURNING 1
	)
	SELECT count(*), ` + durable + `, CASE WHEN count(*) > 0 THEN pg_notify('{events}', '') END FROM added`
}
