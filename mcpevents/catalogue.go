package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// maxPages is the most pages that a catalogue may have.
const maxPages = 1000

// List yields what the server offers, page by page. It ends at a page that comes
// again. What has no name is passed over, and so are modes that are not known.
// An error is the last pair: [ErrTooLarge] past the limits of [SessionConfig].
func (s *Session) List(ctx context.Context) iter.Seq2[Descriptor, error] {
	return func(yield func(Descriptor, error) bool) {
		err := s.pages(ctx, func(events []Descriptor, _ time.Duration) bool {
			for _, d := range events {
				if !yield(d, nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield(Descriptor{}, err)
		}
	}
}

// pages reads the catalogue. It ends early when take returns false.
func (s *Session) pages(ctx context.Context, take func(events []Descriptor, ttl time.Duration) bool) error {
	seen := map[string]bool{}
	types, bytes := 0, 0
	for cursor := ""; ; {
		var page struct {
			Events []json.RawMessage `json:"events"`
			Next   *string           `json:"nextCursor"`
			TTL    json.RawMessage   `json:"ttlMs"`
		}
		if err := s.ask(ctx, methodList, &listParams{Cursor: cursor}, &page); err != nil {
			return err
		}
		for _, raw := range page.Events {
			bytes += len(raw)
		}
		if types += len(page.Events); types > s.cfg.MaxTypes || bytes > s.cfg.MaxMessageBytes {
			return fmt.Errorf("%w: its catalogue has too many types or bytes", ErrTooLarge)
		}
		events := make([]Descriptor, 0, len(page.Events))
		for _, raw := range page.Events {
			if d, ok := parseDescriptor(raw); ok {
				events = append(events, d)
			}
		}
		if !take(events, milliseconds(page.TTL)) || page.Next == nil || *page.Next == "" || seen[*page.Next] {
			return nil
		}
		cursor = *page.Next
		bytes += len(cursor)
		if seen[cursor] = true; len(seen) >= maxPages {
			return fmt.Errorf("%w: its catalogue has too many pages", ErrTooLarge)
		}
	}
}

// parseDescriptor reads one entry of the catalogue, leniently: all but the name
// may be missing or wrong.
func parseDescriptor(raw json.RawMessage) (Descriptor, bool) {
	var m struct {
		Name, Description, Delivery, InputSchema, PayloadSchema json.RawMessage
		Meta                                                    json.RawMessage `json:"_meta"`
	}
	var d Descriptor
	if json.Unmarshal(raw, &m) != nil || json.Unmarshal(m.Name, &d.Name) != nil || d.Name == "" {
		return Descriptor{}, false
	}
	_ = json.Unmarshal(m.Description, &d.Description)
	var modes []json.RawMessage
	_ = json.Unmarshal(m.Delivery, &modes)
	for _, one := range modes {
		var mode Mode
		if json.Unmarshal(one, &mode) == nil && (mode == Poll || mode == Push || mode == Webhook) {
			d.Delivery = append(d.Delivery, mode)
		}
	}
	if isObject(m.InputSchema) {
		d.Input = m.InputSchema
	}
	if isObject(m.PayloadSchema) {
		d.Payload = m.PayloadSchema
	}
	if len(m.Meta) > 0 && !tooDeep(m.Meta) {
		_ = json.Unmarshal(m.Meta, &d.Meta)
	}
	return d, true
}

// milliseconds reads a number of them; what is no number, or negative, is zero.
// It never exceeds a day.
func milliseconds(raw json.RawMessage) time.Duration {
	var f float64
	if json.Unmarshal(raw, &f) != nil || !(f > 0) {
		return 0
	}
	const day = float64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(f, day)) * time.Millisecond
}

// A catalogue is what a session knows of the server's types.
type catalogue struct {
	mu      sync.Mutex
	reading *reading // under way; nil: none
	types   map[string]Descriptor
	at      time.Time // of the reading; zero: outdated
	changes time.Time // when it changed last
	soon    bool      // a change waits to be told
	ttl     time.Duration
	no      map[refusedMode]bool // what was refused as not offered, whatever the catalogue says
	changed context.Context      // ends when the catalogue changes
	change  context.CancelFunc
}

// A reading of the catalogue is shared by all who ask meanwhile.
type reading struct {
	began time.Time
	done  chan struct{}
	err   error
	left  bool // by who read it, so that err is of no interest to others
}

type refusedMode struct {
	name string
	mode Mode
}

func newCatalogue() *catalogue {
	c := &catalogue{no: map[refusedMode]bool{}}
	c.changed, c.change = context.WithCancel(context.Background())
	return c
}

// outdate makes the next look read the catalogue again, and tells who waits for
// that. What was learned of refused modes is forgotten.
func (c *catalogue) outdate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.changes, c.no = time.Time{}, time.Now(), map[refusedMode]bool{}
	c.change()
	c.changed, c.change = context.WithCancel(context.Background())
}

// outdateBefore is outdate, if what is known, or comes, was asked for before t.
func (c *catalogue) outdateBefore(t time.Time) {
	c.mu.Lock()
	old := !c.at.IsZero() && c.at.Before(t) || c.reading != nil && c.reading.began.Before(t)
	c.mu.Unlock()
	if old {
		c.outdate()
	}
}

// outdateSoon is outdate, but not again within a while: whoever may say that it is
// time must not set the pace.
func (c *catalogue) outdateSoon() {
	c.mu.Lock()
	wait := listenPause - time.Since(c.changes)
	soon := c.soon
	c.soon = soon || wait > 0
	c.mu.Unlock()
	switch {
	case soon:
	case wait <= 0:
		c.outdate()
	default:
		time.AfterFunc(wait, func() {
			c.mu.Lock()
			c.soon = false
			c.mu.Unlock()
			c.outdate()
		})
	}
}

// join returns the reading that is under way, or begins one that is the caller's.
func (c *catalogue) join() (r *reading, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading != nil {
		return c.reading, false
	}
	c.reading = &reading{began: time.Now(), done: make(chan struct{})}
	return c.reading, true
}

// ended tells all who wait for a reading.
func (c *catalogue) ended(r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = nil
	close(r.done)
}

// generation ends when the catalogue changes.
func (c *catalogue) generation() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *catalogue) refuse(name string, m Mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.no[refusedMode{name, m}] = true
}

func (c *catalogue) refused(name string, m Mode) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.no[refusedMode{name, m}]
}

// look returns what is known of a type, if it was read after since, or is still
// good by what the server said of it.
func (c *catalogue) look(name string, since time.Time) (d Descriptor, known, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, known = c.types[name]
	return d, known, !c.at.IsZero() && (!c.at.Before(since) || time.Since(c.at) < c.ttl)
}

// describe returns the descriptor of a type, and whether it is offered. It reads
// the catalogue where what is known is not good any more, or always with anew;
// several that ask at the same time share one reading, and how it fails.
func (s *Session) describe(ctx context.Context, name string, anew bool) (Descriptor, bool, error) {
	c, since := s.catalogue, time.Now()
	if anew {
		c.mu.Lock()
		c.at = time.Time{}
		c.mu.Unlock()
	}
	for {
		if d, known, fresh := c.look(name, since); fresh {
			return d, known, nil
		}
		r, mine := c.join()
		if mine {
			types, err := s.read(ctx, r.began)
			r.err, r.left = err, ctx.Err() != nil
			c.ended(r)
			d, known := types[name]
			return d, known, err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return Descriptor{}, false, context.Cause(ctx)
		}
		if r.err != nil && !r.left {
			return Descriptor{}, false, r.err
		}
	}
}

// read reads the whole catalogue and keeps it.
func (s *Session) read(ctx context.Context, began time.Time) (map[string]Descriptor, error) {
	generation := s.catalogue.generation()
	types, ttl := map[string]Descriptor{}, 24*time.Hour
	err := s.pages(ctx, func(events []Descriptor, page time.Duration) bool {
		ttl = min(ttl, page)
		for _, d := range events {
			if _, ok := types[d.Name]; !ok {
				types[d.Name] = d
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	s.catalogue.mu.Lock()
	defer s.catalogue.mu.Unlock()
	for r := range s.catalogue.no { // it may be offered by now
		if !slices.Equal(types[r.name].Delivery, s.catalogue.types[r.name].Delivery) {
			delete(s.catalogue.no, r)
		}
	}
	s.catalogue.types, s.catalogue.ttl, s.catalogue.at = types, ttl, began
	if generation.Err() != nil { // it changed while it was read
		s.catalogue.at = time.Time{}
	}
	return types, nil
}
