package redis

import (
	"context"
	"log/slog"
	"time"

	attend "github.com/attend-go/attend/core"
)

// For the tests in package redis_test.

var (
	Levels  = levels
	LevelOf = levelOf
)

// CheckInfo is what Open thinks of a server whose INFO is this text.
func CheckInfo(text string) error { return parseInfo(text).check() }

// Hearing reports whether the store's subscription is up.
func Hearing(s *Store) bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.ear.open
}

// Look tells the store's hub what was heard, then what a look has found, and
// reports whether the subscription, taken for open, was found deaf.
func Look(s *Store, epoch string, newest, heard attend.Position) bool {
	h := s.hub
	deaf := make(chan struct{})
	h.mu.Lock()
	h.ear.open, h.ear.heard, h.ear.deaf = true, max(h.ear.heard, heard), deaf
	h.mu.Unlock()
	h.found(epoch, newest)
	select {
	case <-deaf:
		return true
	default:
		return false
	}
}

// Rest sets for how long a handle that nobody waits on any more keeps its
// subscription. Nobody may have waited before.
func Rest(s *Store, d time.Duration) { s.hub.rest = d }

// Retain applies a handle's retention, as its keeper does now and then.
func Retain(ctx context.Context, s *Store) (deleted int, err error) { return s.keeper.keep(ctx) }

// RetainEvents is Retain for an event log.
func RetainEvents(ctx context.Context, l *EventLog) (deleted int, err error) {
	return l.keeper.keep(ctx)
}

// Saw makes a handle take a row for its newest.
func Saw(s *Store, r attend.Row) { s.rows.saw(&r) }

// Keep starts a keeper.
func Keep(log *slog.Logger, keep func(context.Context) (int, error)) (poke, end func()) {
	k := newKeeper(log, "test", keep)
	return k.poke, k.close
}
