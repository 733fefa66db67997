package server

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// Metrics measures one engine and whatever serves it, for Prometheus, in a
// registry of its own. Scopes are no labels: there is no end to them. It is made
// before the engine, which it reaches by four ways:
//
//	m := server.NewMetrics("")
//	e, err := engine.New(engine.Config{
//		Store: m.Store(store), Judge: m.Judge("rule", judge), Sink: m.Sink("app", sink),
//		Observer: m.Observe, …
//	})
//
// What is left out stays at zero. A Metrics is a [prometheus.Collector], so an
// app with a registry of its own can register it there. All methods may be called
// from many goroutines at once.
type Metrics struct {
	registry *prometheus.Registry
	all      []prometheus.Collector

	accepted, duplicate, rejected prometheus.Counter
	dropped, settles              *prometheus.CounterVec
	windowEvents, settleLag       prometheus.Histogram
	verdicts                      *verdicts

	judgeRequests *prometheus.CounterVec
	judgeSeconds  *prometheus.HistogramVec
	judgeTokens   *prometheus.CounterVec

	deliveries  *prometheus.CounterVec
	deliveryLag prometheus.Histogram
	logSink     atomic.Pointer[string] // the name of a sink that is attend.LogOnly
	opened      opened

	commitSeconds, groupWrites prometheus.Histogram
	conflicts                  prometheus.Counter
	lanes                      lanes

	subscribers *subscribers
	reconnects  prometheus.Counter
	residents   residents
}

var residentsDesc = prometheus.NewDesc("attend_scopes_resident", "Scopes that the engine of this process holds in memory.", nil, nil)

// NewMetrics returns what measures an engine. Version is what attend_build_info
// says; where it is empty, the version that was built into the program.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), verdicts: newVerdicts(), subscribers: newSubscribers()}
	m.engine()
	m.work()
	m.storage()
	m.add(m.verdicts, m.subscribers, &m.lanes, &m.residents)
	m.reconnects = m.counter("attend_listener_reconnects_total", "Connections on which a store tells of news that were lost and made again.")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "attend_build_info", Help: "1, with the versions of attend and of Go as labels.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(versionOr(version), runtime.Version()).Set(1)
	m.add(build)
	m.registry.MustRegister(m)
	return m
}

// engine makes what Observe feeds.
func (m *Metrics) engine() {
	events := m.counters("attend_events_total", "Events by what became of them.", "result")
	m.accepted, m.duplicate, m.rejected = events.WithLabelValues("accepted"), events.WithLabelValues("duplicate"), events.WithLabelValues("rejected")
	m.dropped = m.counters("attend_events_dropped_total", "Events that left a window undecided, by why.", "reason")
	for _, why := range []attend.Why{attend.WhyCount, attend.WhySize, attend.WhyStale, attend.WhyExpired} {
		m.dropped.WithLabelValues(string(why))
	}
	m.settles = m.counters("attend_window_settles_total", "Windows that settled, by why.", "reason")
	for _, r := range attend.Reasons() {
		m.settles.WithLabelValues(string(r))
	}
	m.windowEvents = m.histogram("attend_window_events", "Events in a window that settled.", prometheus.ExponentialBuckets(1, 2, 10))
	m.settleLag = m.histogram("attend_settle_lag_seconds", "From a window's deadline until its settling was committed.", seconds(0.001, 14))
}

// work makes what the judges and the sinks feed.
func (m *Metrics) work() {
	m.judgeRequests = m.counters("attend_judge_requests_total", "Calls of a judge, by how they ended.", "judge", "outcome")
	m.judgeSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "attend_judge_duration_seconds", Help: "How long a judge took to answer or to fail.", Buckets: seconds(0.001, 15),
	}, []string{"judge"})
	m.add(m.judgeSeconds)
	m.judgeTokens = m.counters("attend_judge_tokens_total", "Tokens that a judge read (in) and wrote (out).", "judge", "direction")
	m.deliveries = m.counters("attend_deliveries_total", "Decisions handed to a sink, by how that ended.", "sink", "outcome")
	m.deliveryLag = m.histogram("attend_delivery_lag_seconds", "From taking in a window's first event to the decision's delivery.", seconds(0.001, 18))
}

// storage makes what the store feeds.
func (m *Metrics) storage() {
	m.commitSeconds = m.histogram("attend_store_commit_seconds", "How long a commit of the store took.", seconds(0.00001, 20))
	m.groupWrites = m.histogram("attend_store_group_writes", "Writes in one commit.", prometheus.ExponentialBuckets(1, 2, 11))
	m.conflicts = m.counter("attend_store_conflicts_total", "Writes that others were faster than.")
}

// seconds are n buckets from the smallest on, each twice the last.
func seconds(smallest float64, n int) []float64 { return prometheus.ExponentialBuckets(smallest, 2, n) }

func (m *Metrics) add(c ...prometheus.Collector) { m.all = append(m.all, c...) }

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.add(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.add(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.add(h)
	return h
}

// Describe is of [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(to)
	}
}

// Collect is of [prometheus.Collector]. It may ask the store, for up to 2 s.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(to)
	}
}

// Handler answers with all metrics, in the format that the request accepts. It
// asks for no rights: a [Server] does.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Tokens counts what a judge has used, for attend_judge_tokens_total: tokens that
// it read, and that it wrote. Judges that know it have a hook to call it from.
func (m *Metrics) Tokens(judge string, in, out int) {
	m.judgeTokens.WithLabelValues(judge, "in").Add(float64(max(in, 0)))
	m.judgeTokens.WithLabelValues(judge, "out").Add(float64(max(out, 0)))
}

// Reconnected counts a connection on which a store is told of news, and which it
// had to make again.
func (m *Metrics) Reconnected() { m.reconnects.Inc() }

// residents tells how many scopes an engine holds in memory, once there is one.
type residents struct{ engine atomic.Pointer[engine.Engine] }

// Describe is of [prometheus.Collector].
func (r *residents) Describe(to chan<- *prometheus.Desc) { to <- residentsDesc }

// Collect is of [prometheus.Collector].
func (r *residents) Collect(to chan<- prometheus.Metric) {
	if e := r.engine.Load(); e != nil {
		to <- prometheus.MustNewConstMetric(residentsDesc, prometheus.GaugeValue, float64(e.Resident()))
	}
}

// since is how long ago a moment was, in seconds; 0 for one that is to come: an
// engine's time may be ahead of the clock.
func since(at time.Time) float64 { return max(time.Since(at).Seconds(), 0) }

func versionOr(v string) string {
	if v != "" {
		return v
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}
