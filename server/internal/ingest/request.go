package ingest

import (
	"context"
	"errors"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// A request is a body on its way in. While one group commits, the next is read.
type request struct {
	reader
	tally
	in     *Ingest
	ctx    context.Context
	fields map[string]string // names of an event's fields, where the form has others

	group   *group                   // gathers
	spare   *group                   // commits, while flight is there
	flight  chan struct{}            // closed when spare has committed
	blocked map[attend.Scope]*reason // scopes that refused a line for now: those behind it are not to overtake it
	down    *reason                  // nothing is tried any more
}

// Once this much is gathered and nothing commits, it is committed: the rest can
// be read meanwhile.
const (
	startLines = 512
	startBytes = 256 << 10
)

// maxBlocked is how many scopes a request remembers for refusing. If more do,
// all do.
const maxBlocked = 10_000

// read reads a body to its end, or as far as it goes.
func (q *request) read(split splitter) {
	for q.down == nil {
		b, err := split.next()
		switch {
		case err == nil:
			q.line(split.number(), b)
		case errors.Is(err, attend.ErrTooLarge):
			q.reject(split.number(), "", because(err, nil))
		case ended(err):
			return
		default:
			q.unread(split.number()+1, err)
			return
		}
	}
	q.unread(split.number()+1, &problem.Problem{Status: q.down.status, Detail: q.down.text})
}

// unread says that a line and those behind it were not read.
func (q *request) unread(number int, err error) {
	q.cut = err
	p := problem.Of(err)
	q.reject(number, "", &reason{p.Detail + "; this line and those behind it were not read", p.Status, again(p.Status)})
}

// line takes one line.
func (q *request) line(number int, b []byte) {
	scope, why := q.reader.read(b)
	if why != nil {
		q.reject(number, scope, why)
		return
	}
	if !q.group.fits(&q.item) {
		q.land()
		q.launch()
	}
	q.group.add(number, &q.item)
	if len(q.group.lines) >= startLines || q.group.bytes >= startBytes {
		q.start()
	}
}

// start commits what is gathered, unless something commits.
func (q *request) start() {
	if q.flight != nil {
		select {
		case <-q.flight:
			q.land()
		default:
			return
		}
	}
	q.launch()
}

// launch commits what is gathered, and gathers anew. Nothing commits.
func (q *request) launch() {
	q.hold(q.group)
	q.group, q.spare = q.spare, q.group
	flight, g := make(chan struct{}), q.spare
	q.flight = flight
	go func() {
		defer close(flight)
		q.in.commit(q.ctx, g)
	}()
}

// land waits for what commits.
func (q *request) land() {
	if q.flight == nil {
		return
	}
	<-q.flight
	q.flight = nil
	q.settle(q.spare)
	q.spare.clear()
}

// finish commits the rest.
func (q *request) finish() {
	q.land()
	if !q.group.empty() {
		q.hold(q.group)
		q.in.commit(q.ctx, q.group)
		q.settle(q.group)
	}
	q.in.free(q.group)
	q.in.free(q.spare)
	q.in.cfg.Rejected(q.rejected)
}

// commit commits a group.
func (in *Ingest) commit(ctx context.Context, g *group) {
	ctx, done := context.WithTimeout(ctx, in.cfg.Commit)
	defer done()
	g.commit(ctx, in.cfg.Engine)
}

// hold keeps back what is not to be tried any more.
func (q *request) hold(g *group) {
	if q.down == nil && len(q.blocked) == 0 {
		return
	}
	for i := range g.pushes {
		p := &g.pushes[i]
		if p.why = q.down; p.why == nil {
			p.why = q.blocked[p.scope]
		}
	}
}

// settle counts what became of a group.
func (q *request) settle(g *group) {
	accepted, duplicates := g.counts()
	q.accepted += accepted
	q.duplicates += duplicates
	if g.whole() {
		return
	}
	g.results(q.fields, func(number int, scope attend.Scope, why *reason) {
		if why != nil {
			q.reject(number, scope, why)
		}
	})
	for i := range g.list {
		if x := &g.list[i]; x.Err != nil {
			if why := because(x.Err, q.fields); why.retry {
				q.block(x.Scope, why)
			}
		}
	}
	if why := g.failure(q.fields); why != nil {
		q.down = why
	}
}

func (q *request) block(scope attend.Scope, why *reason) {
	if q.blocked == nil {
		q.blocked = make(map[attend.Scope]*reason)
	}
	if q.blocked[scope] = why; len(q.blocked) > maxBlocked {
		q.down = why
	}
}
