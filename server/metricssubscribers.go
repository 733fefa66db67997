package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An audience knows who reads decisions as they come.
type audience interface {
	Subscribers() map[string]int
	Stalest(now time.Time) time.Duration
}

// subscribers shows the audiences of all servers on one engine.
type subscribers struct {
	many, age *prometheus.Desc

	mu    sync.Mutex
	seats []audience
}

func newSubscribers() *subscribers {
	return &subscribers{
		many: prometheus.NewDesc("attend_subscribers", "Readers of decisions that are here now.", []string{"transport"}, nil),
		age: prometheus.NewDesc("attend_subscriber_last_delivery_age_seconds",
			"How long ago something reached the reader that was reached the longest ago.", nil, nil),
	}
}

func (s *subscribers) watch(a audience) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seats = append(s.seats, a)
}

// Describe is of [prometheus.Collector].
func (s *subscribers) Describe(to chan<- *prometheus.Desc) {
	to <- s.many
	to <- s.age
}

// Collect is of [prometheus.Collector].
func (s *subscribers) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	many, worst := map[string]int{"sse": 0, "mcp": 0}, time.Duration(0)
	for _, a := range s.seats {
		for transport, n := range a.Subscribers() {
			many[transport] += n
		}
		worst = max(worst, a.Stalest(time.Now()))
	}
	for transport, n := range many {
		to <- prometheus.MustNewConstMetric(s.many, prometheus.GaugeValue, float64(n), transport)
	}
	to <- prometheus.MustNewConstMetric(s.age, prometheus.GaugeValue, worst.Seconds())
}
