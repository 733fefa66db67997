package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
	turn chan struct{} // held by who reads the catalogue

	mu      sync.Mutex
	types   map[string]Descriptor
	at      time.Time // of the reading; zero: outdated
	ttl     time.Duration
	no      map[refusedMode]bool // what was refused as not offered, whatever the catalogue says
	changed context.Context      // ends when the catalogue changes
	change  context.CancelFunc
}

type refusedMode struct {
	name string
	mode Mode
}

func newCatalogue() *catalogue {
	c := &catalogue{turn: make(chan struct{}, 1), no: map[refusedMode]bool{}}
	c.changed, c.change = context.WithCancel(context.Background())
	return c
}

// outdate makes the next look read the catalogue again, and tells who waits for
// that. What was learned of refused modes is forgotten.
func (c *catalogue) outdate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.no = time.Time{}, map[refusedMode]bool{}
	c.change()
	c.changed, c.change = context.WithCancel(context.Background())
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
// several that ask at the same time share one reading.
func (s *Session) describe(ctx context.Context, name string, anew bool) (Descriptor, bool, error) {
	since := time.Now()
	if anew {
		s.catalogue.mu.Lock()
		s.catalogue.at = time.Time{}
		s.catalogue.mu.Unlock()
	}
	if d, known, fresh := s.catalogue.look(name, since); fresh {
		return d, known, nil
	}
	select {
	case s.catalogue.turn <- struct{}{}:
		defer func() { <-s.catalogue.turn }()
	case <-ctx.Done():
		return Descriptor{}, false, context.Cause(ctx)
	}
	if d, known, fresh := s.catalogue.look(name, since); fresh {
		return d, known, nil
	}
	generation, began := s.catalogue.generation(), time.Now()
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
		return Descriptor{}, false, err
	}
	d, known := types[name]
	s.catalogue.mu.Lock()
	defer s.catalogue.mu.Unlock()
	s.catalogue.types, s.catalogue.ttl, s.catalogue.at = types, ttl, began
	if generation.Err() != nil { // it changed while it was read
		s.catalogue.at = time.Time{}
	}
	return d, known, nil
}
