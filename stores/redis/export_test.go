package redis

import attend "github.com/attend-go/attend/core"

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
