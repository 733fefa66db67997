package memory

import attend "github.com/attend-go/attend/core"

// Lists is how many lists of rows the store has.
func Lists(s *Store) int {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return len(s.d.rows.lists)
}

// Waiting is how often a waiter is in a list.
func Waiting(s *Store) (n int) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, x := range s.d.rows.lists {
		n += len(x.waiting)
	}
	return n
}

// Kept is how many bytes of memory the scope's record holds.
func Kept(s *Store, scope attend.Scope) int {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return cap(s.d.scopes[scope].kept)
}

// Streams is how many scopes the event log knows.
func Streams(l *EventLog) int {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	return len(l.d.scopes)
}
