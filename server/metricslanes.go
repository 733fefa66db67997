package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// What one look at the lanes may cost, and how long it is good for.
const (
	laneAge    = 15 * time.Second
	laneTime   = 2 * time.Second
	laneScopes = 2000
	// laneAhead is how far ahead the due time of a scope with something in a
	// lane can lie: that of a retry, or of a lease.
	laneAhead = 2 * time.Minute
)

// lanes tells how much waits in the lanes of all scopes. That is known by the
// store alone: a process that was started anew, or another one, may find what
// it never put there.
type lanes struct {
	mu      sync.Mutex
	store   attend.ScopeStore // nil: nobody asks
	asked   time.Time
	known   bool // the last look came to its end, or to its limit
	outbox  int
	letters int
	logged  int // dead letters that this process has seen written to the log
}

func (l *lanes) watch(s attend.ScopeStore) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = s
}

// wrote counts dead letters among rows that were committed.
func (l *lanes) wrote(rows []attend.Row) {
	n := 0
	for i := range rows {
		if rows[i].Type == attend.RowLetter {
			n++
		}
	}
	if n > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.logged += n
	}
}

var (
	outboxDesc = prometheus.NewDesc("attend_outbox_depth",
		"Decisions in the store that wait for their sink, the same at each process on a store. None while the store does not answer.", nil, nil)
	lettersDesc = prometheus.NewDesc("attend_dead_letters",
		"Dead letters in the store that wait for their handler, and those that this process has written to the log.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (l *lanes) Describe(to chan<- *prometheus.Desc) {
	to <- outboxDesc
	to <- lettersDesc
}

// Collect is of [prometheus.Collector].
func (l *lanes) Collect(to chan<- prometheus.Metric) {
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return
	}
	to <- prometheus.MustNewConstMetric(outboxDesc, prometheus.GaugeValue, float64(l.outbox))
	to <- prometheus.MustNewConstMetric(lettersDesc, prometheus.GaugeValue, float64(l.letters+l.logged))
}

// look counts anew where the last count is too old. A scope with something in a
// lane is due soon, whoever works it; so scopes that only sleep are not read.
func (l *lanes) look() {
	l.mu.Lock()
	store, now := l.store, time.Now()
	if store == nil || !l.asked.IsZero() && now.Sub(l.asked) < laneAge {
		l.mu.Unlock()
		return
	}
	l.asked = now
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), laneTime)
	defer cancel()
	outbox, letters, err := count(ctx, store, now.Add(laneAhead))

	l.mu.Lock()
	defer l.mu.Unlock()
	// What was found until the time was over is shown, as a lower bound.
	if l.known = err == nil || ctx.Err() != nil && outbox+letters > 0; l.known {
		l.outbox, l.letters = outbox, letters
	}
}

func count(ctx context.Context, s attend.ScopeStore, until time.Time) (outbox, letters int, err error) {
	n := 0
	for scope, err := range s.Due(ctx, until) {
		if err != nil {
			return outbox, letters, err
		}
		if n++; n > laneScopes {
			return outbox, letters, nil
		}
		rec, err := s.Load(ctx, scope)
		if err != nil {
			return outbox, letters, err
		}
		state, err := machine.Replay(rec)
		if err != nil {
			continue // another release's, or broken: the engine says so
		}
		outbox += len(state.Decisions())
		letters += len(state.Letters())
	}
	return outbox, letters, nil
}
