package mcpevents

import (
	"sync"
	"time"
)

// A quota counts what each principal did in the running minute.
type quota struct {
	max int

	mu    sync.Mutex
	began time.Time
	count map[string]int // no more principals than asked in this minute
}

// take counts one, and reports whether it is within the quota.
func (q *quota) take(principal string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.count == nil || now.Sub(q.began) >= time.Minute {
		q.began, q.count = now, map[string]int{}
	}
	if q.count[principal] >= q.max {
		return false
	}
	q.count[principal]++
	return true
}
