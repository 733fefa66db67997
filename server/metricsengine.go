package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	attend "github.com/attend-go/attend/core"
)

// Observe counts one step of the engine. It is for engine.Config.Observer; an
// app with an observer of its own calls Observe from there.
func (m *Metrics) Observe(t attend.Trace) {
	switch t := t.(type) {
	case attend.TakenIn:
		m.accepted.Add(float64(len(t.Events)))
	case attend.Duplicate:
		m.duplicate.Add(float64(len(t.Events)))
	case attend.Shed:
		m.dropped.WithLabelValues(string(t.Why)).Add(float64(len(t.Events)))
	case attend.Settled:
		m.settles.WithLabelValues(string(t.Reason)).Inc()
		m.windowEvents.Observe(float64(t.Events))
		m.settleLag.Observe(since(t.At))
	case attend.Judged:
		m.verdicts.judged(t.Verdict.Route)
		m.logged(t)
	case attend.Thresholded:
		m.verdicts.changed(t.To)
	case attend.DeadLettered:
		if t.Stage == attend.StageIntake {
			m.rejected.Inc()
		}
	}
}

// logged counts a decision that its log row has delivered.
func (m *Metrics) logged(t attend.Judged) {
	opened := m.opened.take(t.Scope)
	name := m.logSink.Load()
	if name == nil || !t.Verdict.Route.Delivered() {
		return
	}
	m.deliveries.WithLabelValues(*name, outcomeOK).Inc()
	if !opened.IsZero() {
		m.deliveryLag.Observe(since(opened))
	}
}

// refused counts events that were refused before they came to the engine.
func (m *Metrics) refused(n int) { m.rejected.Add(float64(n)) }

// verdicts counts verdicts by route, and apart those that the act threshold
// changed. The engine tells of a change right after the verdict; a look in
// between must not see a count that falls again.
type verdicts struct {
	desc *prometheus.Desc

	mu        sync.Mutex
	all, told map[attend.Route]float64 // told: of those that nothing changed, at most shown so far
	threshold map[attend.Route]float64
}

func newVerdicts() *verdicts {
	return &verdicts{
		desc: prometheus.NewDesc("attend_verdicts_total", "Judgments by the route that was taken, and by what changed it.", []string{"route", "changed_by"}, nil),
		all:  make(map[attend.Route]float64), told: make(map[attend.Route]float64), threshold: make(map[attend.Route]float64),
	}
}

func (v *verdicts) judged(r attend.Route) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[r]++
}

func (v *verdicts) changed(r attend.Route) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.threshold[r]++
}

// Describe is of [prometheus.Collector].
func (v *verdicts) Describe(to chan<- *prometheus.Desc) { to <- v.desc }

// Collect is of [prometheus.Collector].
func (v *verdicts) Collect(to chan<- prometheus.Metric) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range attend.AllRoutes() {
		v.told[r] = max(v.told[r], v.all[r]-v.threshold[r])
		to <- prometheus.MustNewConstMetric(v.desc, prometheus.CounterValue, v.told[r], string(r), "")
		to <- prometheus.MustNewConstMetric(v.desc, prometheus.CounterValue, v.threshold[r], string(r), "threshold")
	}
}

// mostOpened bounds what opened holds.
const mostOpened = 1 << 13

// opened remembers when the window that a scope's judge was last asked about
// was opened: no trace says it.
type opened struct {
	mu sync.Mutex
	at map[attend.Scope]time.Time
}

func (o *opened) put(s attend.Scope, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.at) >= mostOpened {
		clear(o.at) // answers that came to nothing; the others go unmeasured
	}
	if o.at == nil {
		o.at = make(map[attend.Scope]time.Time)
	}
	o.at[s] = at
}

func (o *opened) take(s attend.Scope) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.at[s]
	delete(o.at, s)
	return at
}
