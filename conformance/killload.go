package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// killProducers is how many push at a time.
const killProducers = 12

// A killProducer pushes, waits for its acknowledgement, and repeats what it
// doesn't get one for.
type killProducer struct {
	run    *killRun
	number int
	random *rand.Rand
	made   int // events
	asked  int // requests
}

// produce pushes until ctx ends.
func (r *killRun) produce(ctx context.Context, number int) {
	p := &killProducer{run: r, number: number, random: r.random(1<<33 + uint64(number))}
	for ctx.Err() == nil {
		q := p.request()
		var push *killPush
		if q.Do == "push" {
			push = &killPush{scope: q.Scope, events: q.Events}
			r.book.push(push)
		}
		p.bring(ctx, &q, push)
		if pause(ctx, time.Duration(p.random.Int64N(int64(8*time.Millisecond)))) != nil {
			return
		}
	}
}

// bring repeats a request until it is acknowledged, by whichever child.
func (p *killProducer) bring(ctx context.Context, q *killRequest, push *killPush) {
	r := p.run
	w := r.workers[p.number%len(r.workers)]
	for ctx.Err() == nil {
		l := w.ready(ctx)
		if l == nil {
			return
		}
		p.asked++
		if push != nil {
			r.book.try(push)
		}
		q.Number = p.asked*killProducers + p.number
		at := time.Now()
		a := l.ask(ctx, q)
		switch {
		case a == nil:
			continue
		case a.Err == "":
			for old := w.served.Load(); old < at.UnixNano() && !w.served.CompareAndSwap(old, at.UnixNano()); old = w.served.Load() {
			}
			if push != nil {
				r.book.ack(push, l.number)
			}
			return
		case !a.Again && !r.serves:
			r.fail(fmt.Errorf("%s of %.40q in child %d fails, though its store was not harmed while it lived: %s", q.Do, q.Scope, l.number, a.Err))
			return
		}
		r.book.refused(a.Err)
		w.failed.Store(&a.Err)
		if pause(ctx, time.Duration(5+p.random.IntN(15))*time.Millisecond) != nil {
			return
		}
	}
}

// request makes up the next request.
func (p *killProducer) request() killRequest {
	q := killRequest{Do: "push", Scope: p.scope()}
	switch n := p.random.IntN(100); {
	case n < 4:
		q.Do = "flush"
		return q
	case n < 8:
		q.Do = "end"
		return q
	case n < 10:
		q.Events = p.events(40)
	default:
		q.Events = p.events(1 + p.random.IntN(6))
	}
	if p.random.IntN(1000) == 0 {
		q.Events[0].Text += strings.Repeat("much more text ", 20_000)
	}
	return q
}

// scope picks one of a dozen, with new ones every few pushes in place of old
// ones: what a scope begins with is written as well.
func (p *killProducer) scope() attend.Scope {
	kinds := []string{"kill/a/%d", "kill/b/%d", "kill/a:%d", "kill/'\"\\%%_*?[{}]:/%d", "kill/ß日本\u200b %d", strings.Repeat("long/", 100) + "%d"}
	n := p.random.IntN(len(kinds))
	// Two of each kind at a time.
	return attend.Scope(fmt.Sprintf(kinds[n], p.run.generation()*2+p.random.IntN(2)))
}

// generation rises with each 400 pushes, long before a scope forgets an id.
func (r *killRun) generation() int { return r.book.acknowledged() / 400 }

// events makes n new ones, some of which settle their window.
func (p *killProducer) events(n int) []attend.Event {
	names := []string{"consequence.log", "consequence.log", "consequence.tool", "context.reply", "closing.build", "closing.build", "continuous.edit", "passive.look", "flush.message"}
	out := make([]attend.Event, n)
	for i := range out {
		p.made++
		id := fmt.Sprintf("p%d-%d", p.number, p.made)
		out[i] = attend.Event{ID: id, At: noon, Name: names[p.random.IntN(len(names))], Text: "what happened in " + id}
	}
	return out
}
