package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	attend "github.com/attend-go/attend/core"
)

// How often a log is trimmed by the clock.
const (
	trimSoonest = time.Minute
	trimLatest  = time.Hour
)

// trimByClock deletes the rows of a log that are older than age, until ctx ends.
//
// The stores themselves keep to their count and age, in small steps, but count
// an age from their newest row, so that what nobody adds to would be kept for
// good. Looking for old rows costs Redis a read of all that are younger, so this
// is seldom, and replicas don't do it at one moment.
func trimByClock(ctx context.Context, log attend.DecisionLog, age time.Duration, logger *slog.Logger) {
	if age <= 0 {
		return
	}
	every := min(max(age/16, trimSoonest), trimLatest)
	for next := jittered(trimSoonest); ; next = jittered(every) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		err := log.Trim(ctx, attend.Retain{Age: age}, time.Now())
		if err != nil && ctx.Err() == nil && !errors.Is(err, attend.ErrClosed) {
			logger.Warn("the decision log could not be trimmed; it is tried again", "err", err)
		}
	}
}

// jittered is d, up to a quarter less or more.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1)
}
