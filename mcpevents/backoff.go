package mcpevents

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Times between attempts.
const (
	minBackoff   = time.Second
	maxBackoff   = 30 * time.Second
	liveEnough   = 30 * time.Second // an attempt that worked this long starts the backoff anew
	minExhausted = 30 * time.Second // after ResourceExhausted
)

// A backoff spaces attempts: twice the time after each that failed, with jitter.
type backoff struct {
	failures int
}

// next is how long to wait after an attempt that worked for live and ended with
// err.
func (b *backoff) next(live time.Duration, err error) time.Duration {
	if live >= liveEnough {
		b.failures = 0
	}
	d := minBackoff << min(b.failures, 10)
	b.failures++
	if d += rand.N(d / 4); d > maxBackoff {
		d = maxBackoff - rand.N(maxBackoff/4)
	}
	if errors.Is(err, ErrResourceExhausted) {
		d = max(d, minExhausted+rand.N(minExhausted/4))
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		d = max(d, e.RetryAfter)
	}
	return d
}
