package mcpevents

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The bounds of a [Log] that says nothing else.
const (
	defaultLogEvents = 10_000
	defaultLogBytes  = 64 << 20
)

// entryBytes is what an event takes beside its id and data, roughly.
const entryBytes = 256

// LogConfig configures a [Log]. The zero one is usable.
type LogConfig struct {
	// MaxEvents is the most events that are held; zero is 10,000.
	MaxEvents int
	// MaxBytes is the most memory, roughly, that they take; zero is 64 MiB.
	MaxBytes int64
	// MaxAge is how long an event is held after it was appended; zero is as long
	// as the other bounds allow.
	MaxAge time.Duration
	// Match tells whether a subscription's arguments want an event; nil is
	// always. It may be called from many goroutines, and must not change v.
	Match func(sub Subscription, v Event) bool
}

// A Log is a [Backend] in memory, of one type of event. It holds the newest events, within its bounds,
// and drops the oldest. Its cursors are its own: those of a log that the process
// held before it ended are answered with what is held, and as truncated. Its
// methods may be called from many goroutines.
type Log struct {
	config LogConfig
	epoch  string

	mu      sync.RWMutex
	entries []*logEntry // a ring
	first   int         // index of the oldest
	count   int
	last    uint64 // sequence of the newest; zero is none yet
	bytes   int64
	changed chan struct{} // closed at the next append
	offers  []*offer      // of the servers that offer it
}

// A logEntry does not change once it is in the ring.
type logEntry struct {
	event Event
	form  form      // the event's
	at    time.Time // of the append
	bytes int64
}

// NewLog returns an empty log.
func NewLog(c LogConfig) *Log {
	if c.MaxEvents <= 0 {
		c.MaxEvents = defaultLogEvents
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultLogBytes
	}
	var epoch [8]byte
	_, _ = rand.Read(epoch[:]) // it does not fail
	return &Log{config: c, epoch: hex.EncodeToString(epoch[:]), changed: make(chan struct{})}
}

// Append adds events, all or none, and wakes who waits for them. Each needs an ID
// and Data; At zero is now. The log keeps the events: their data must not be
// changed afterwards. Where a server offers the log already, an event that does
// not fit its type is refused; the error has nothing of its data.
func (l *Log) Append(events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	l.mu.RLock()
	offers := l.offers
	l.mu.RUnlock()
	now := time.Now()
	entries := make([]*logEntry, len(events))
	var total int64
	for i, v := range events {
		if v.ID == "" || !utf8.ValidString(v.ID) {
			return fmt.Errorf("mcpevents: event %d of %d has no valid id", i+1, len(events))
		}
		e := &logEntry{event: v, at: now}
		e.event.Cursor, e.event.form = "", &e.form
		if v.At.IsZero() {
			e.event.At = now
		}
		for _, o := range offers { // made here once, and not by each who reads it
			f, err := o.form(&e.event)
			if err != nil {
				return fmt.Errorf("mcpevents: event %d of %d: %w", i+1, len(events), err)
			}
			e.event.Data = f.data // the same, and held once
		}
		if len(v.Meta) > 0 {
			meta, err := json.Marshal(v.Meta)
			if err != nil {
				return fmt.Errorf("mcpevents: event %d of %d has metadata that cannot be written as JSON", i+1, len(events))
			}
			e.bytes = int64(len(meta))
		}
		e.bytes += int64(len(e.event.Data)+len(v.ID)) + entryBytes
		entries[i] = e
		total += e.bytes
	}
	if len(events) > l.config.MaxEvents || total > l.config.MaxBytes {
		return errors.New("mcpevents: the events are more than the log may hold")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		l.push(e)
	}
	l.evict(now)
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// push adds an entry behind the newest.
func (l *Log) push(e *logEntry) {
	if l.count == len(l.entries) {
		if l.count == l.config.MaxEvents {
			l.drop()
		} else {
			grown := make([]*logEntry, min(max(2*l.count, 64), l.config.MaxEvents))
			for i := range l.count {
				grown[i] = l.entries[(l.first+i)%len(l.entries)]
			}
			l.entries, l.first = grown, 0
		}
	}
	l.last++
	e.event.Cursor = l.cursor(l.last)
	l.entries[(l.first+l.count)%len(l.entries)] = e
	l.count++
	l.bytes += e.bytes
}

// drop drops the oldest entry.
func (l *Log) drop() {
	l.bytes -= l.entries[l.first].bytes
	l.entries[l.first] = nil
	l.first = (l.first + 1) % len(l.entries)
	l.count--
}

// evict drops what is out of bounds.
func (l *Log) evict(now time.Time) {
	for l.count > 0 && (l.bytes > l.config.MaxBytes || l.config.MaxAge > 0 && now.Sub(l.entries[l.first].at) >= l.config.MaxAge) {
		l.drop()
	}
}

func (l *Log) cursor(sequence uint64) Cursor {
	return Cursor(l.epoch + ":" + strconv.FormatUint(sequence, 10))
}

// sequence reads a cursor of this log.
func (l *Log) sequence(c Cursor) (uint64, bool) {
	text, ok := strings.CutPrefix(string(c), l.epoch+":")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, ok && err == nil && l.cursor(n) == c
}

// Head returns the position behind the newest event.
func (l *Log) Head(context.Context, Subscription) (Cursor, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.cursor(l.last), nil
}

// Wait waits until an event was appended behind after.
func (l *Log) Wait(ctx context.Context, _ Subscription, after Cursor) error {
	n, ok := l.sequence(after)
	for {
		l.mu.RLock()
		last, changed := l.last, l.changed
		l.mu.RUnlock()
		if !ok || n != last {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Read returns the events behind q.After that the subscription wants.
func (l *Log) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	var events []Event
	p, err := l.scan(ctx, sub, q, func(v *Event) bool {
		if len(events) == q.Limit {
			return false
		}
		events = append(events, *v)
		return true
	})
	if err != nil {
		return Page{}, err
	}
	p.Events = events
	return p, nil
}

// scan is Read that hands over the events, which must not be changed, until take
// has no room for one.
func (l *Log) scan(ctx context.Context, sub Subscription, q Query, take func(v *Event) bool) (Page, error) {
	p, next := l.begin(q.After)
	var chunk [256]*logEntry
	taken := 0
	for {
		if err := ctx.Err(); err != nil {
			if p.Cursor != q.After { // what was looked at is not looked at again
				p.More = true
				return p, nil
			}
			return Page{}, err
		}
		n, ok := l.copy(chunk[:], next)
		if !ok || n == 0 { // not ok: dropped in the meantime, the next page tells of it
			return p, nil
		}
		for _, e := range chunk[:n] { // no lock is held: Match is the caller's
			v := &e.event
			switch {
			case l.config.Match != nil && !l.config.Match(sub, *v):
			case v.At.Before(q.NotBefore):
				if p.Truncated = true; taken == 0 {
					p.Start = v.Cursor
				}
			case !take(v):
				p.More = true
				return p, nil
			default:
				taken++
			}
			p.Cursor = v.Cursor
		}
		next += uint64(n)
	}
}

// begin finds where a page begins, and the sequence of its first event.
func (l *Log) begin(after Cursor) (Page, uint64) {
	n, ok := l.sequence(after)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evict(time.Now())
	oldest := l.last - uint64(l.count) // the position before the oldest
	switch {
	case ok && n > l.last:
		return Page{Cursor: l.cursor(l.last), Start: l.cursor(l.last), Truncated: true}, l.last + 1
	case !ok || n < oldest:
		return Page{Cursor: l.cursor(oldest), Start: l.cursor(oldest), Truncated: true}, oldest + 1
	}
	return Page{Cursor: after}, n + 1
}

// copy copies entries from a sequence on; false where they are not held any more.
func (l *Log) copy(to []*logEntry, from uint64) (int, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	skip := int64(from) - int64(l.last-uint64(l.count)+1)
	if skip < 0 {
		return 0, false
	}
	n := min(len(to), max(l.count-int(skip), 0))
	for i := range n {
		to[i] = l.entries[(l.first+int(skip)+i)%len(l.entries)]
	}
	return n, true
}

// attach makes events ready for an offer as they are appended, from now on.
func (l *Log) attach(o *offer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offers = append(append([]*offer(nil), l.offers...), o)
}

// detach is the opposite of attach.
func (l *Log) detach(o *offer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []*offer
	for _, have := range l.offers {
		if have != o {
			rest = append(rest, have)
		}
	}
	l.offers = rest
}
