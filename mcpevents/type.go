package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// maxNameBytes is the most that the name of a type may have.
const maxNameBytes = 256

// anyObject is the schema of a type that has none.
const anyObject = `{"type":"object"}`

// A Type is a type of event as a server offers it.
type Type struct {
	// Name is the key of the type, at most 256 bytes without control characters.
	Name string
	// Description tells what makes it fire.
	Description string
	// Modes are the ways it is delivered; nil is Poll and Push, without Poll
	// where NoReplay is set. What the server's configuration leaves out is left
	// out here as well.
	Modes []Mode
	// Input is the JSON Schema (draft 2020-12) of arguments, Payload that of
	// data; nil is that of any object. One that is wrong is refused, and so is one
	// that has an $id inside or refers to itself without going into the value;
	// into the value it may, as filters within filters do. What would take too
	// much work to check is refused when it comes: arguments as InvalidParams,
	// data as what does not conform. Alternatives that go into the same member
	// multiply that work with each level. For the life of a name they may only
	// gain optional members: see [Server.Replace].
	Input, Payload json.RawMessage
	// Meta is the descriptor's metadata.
	Meta map[string]any
	// Backend is where the events come from; required.
	Backend Backend
	// NoReplay keeps cursors from clients: the events are only heard by who
	// listens when they happen. Such a type cannot be polled.
	NoReplay bool
	// Check tells whether a subscription's principal may have the type with its
	// arguments: nil, or an *[Error], ErrForbidden as a rule. It is asked before
	// anything is provisioned, and again every [ServerConfig].Recheck as long as
	// events are delivered; on any other error the delivery pauses until it is
	// answered. It gets a heartbeat's time at most, and must return when ctx
	// ends. A nil Check lets everybody.
	Check func(ctx context.Context, sub Subscription) error
	// Visible tells whether a principal may know of the type; nil is everybody.
	// Whom it is hidden from gets NotFound.
	Visible func(ctx context.Context, principal string) bool
}

// An offer is a type that was checked. It does not change.
type offer struct {
	Type
	input, payload schema
	modes          []Mode
	key            string              // what the form of an event on the wire depends on
	era            atomic.Pointer[era] // of webhooks, once it was asked for
}

// errModes is the refusal of a type that reaches nobody.
var errModes = errors.New("no mode of delivery is left")

// newOffer checks a type.
func (s *Server) newOffer(t Type) (*offer, error) {
	fail := func(err error) (*offer, error) { return nil, fmt.Errorf("mcpevents: type %q: %w", t.Name, err) }
	if err := checkName(t.Name); err != nil {
		return fail(err)
	}
	if l, ok := t.Backend.(*Log); t.Backend == nil || ok && l == nil {
		return fail(errors.New("Backend is nil"))
	}
	o := &offer{Type: t}
	var err error
	if o.input, err = offeredSchema(t.Input, maxArgumentsWork); err != nil {
		return fail(fmt.Errorf("Input: %w", err))
	}
	if o.payload, err = offeredSchema(t.Payload, maxDataWork); err != nil {
		return fail(fmt.Errorf("Payload: %w", err))
	}
	if len(o.Input) == 0 {
		o.Input = json.RawMessage(anyObject)
	}
	if len(o.Payload) == 0 {
		o.Payload = json.RawMessage(anyObject)
	}
	if o.modes, err = s.modesOf(t); err != nil {
		return fail(err)
	}
	if o.Meta, err = ownMeta(t.Meta); err != nil {
		return fail(fmt.Errorf("Meta: %w", err))
	}
	o.key = o.Name + "\x00" + string(o.Payload)
	return o, nil
}

// ownMeta is a copy: what the app does with its own later does not matter.
func ownMeta(m map[string]any) (map[string]any, error) {
	if len(m) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // large integers stay whole
	var own map[string]any
	return own, d.Decode(&own)
}

func checkName(name string) error {
	switch {
	case name == "" || len(name) > maxNameBytes:
		return fmt.Errorf("Name must have 1 to %d bytes", maxNameBytes)
	case !utf8.ValidString(name):
		return errors.New("Name must be UTF-8")
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return errors.New("Name must not have control characters")
		}
	}
	return nil
}

// modesOf are the modes of a type that the server has.
func (s *Server) modesOf(t Type) ([]Mode, error) {
	want := t.Modes
	if want == nil {
		want = []Mode{Push, Poll}
		if t.NoReplay {
			want = want[:1]
		}
	}
	var modes []Mode
	for _, m := range want {
		switch {
		case m != Poll && m != Push && m != Webhook:
			return nil, fmt.Errorf("Modes: %q is no mode", m)
		case m == Poll && t.NoReplay:
			return nil, errors.New("Modes: what cannot be replayed cannot be polled")
		case slices.Contains(modes, m):
			return nil, fmt.Errorf("Modes: %q twice", m)
		case m == Webhook && s.config.Webhooks == nil:
		case s.config.Modes == nil || slices.Contains(s.config.Modes, m):
			modes = append(modes, m)
		}
	}
	if len(modes) == 0 {
		return nil, errModes
	}
	return modes, nil
}

// descriptor is what events/list says of the type.
func (o *offer) descriptor(modes []Mode) Descriptor {
	return Descriptor{Name: o.Name, Description: o.Description, Delivery: modes, Input: o.Input, Payload: o.Payload, Meta: o.Meta}
}

// A Break is what a change of a type breaks for who subscribed before.
type Break string

// The breaks.
const (
	BreaksNothing Break = ""
	BreaksInput   Break = "inputSchema"
	BreaksPayload Break = "payloadSchema"
)

// Offer adds a type. Clients that listen for it hear that the list changed. It
// refuses a name that is offered; an error tells what is wrong with the type.
func (s *Server) Offer(t Type) error {
	o, err := s.newOffer(t)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.offers[t.Name] != nil {
		s.mu.Unlock()
		return fmt.Errorf("mcpevents: type %q is offered already", t.Name)
	}
	s.offers[t.Name] = o
	s.attachLocked(o)
	s.mu.Unlock()
	s.changed(t.Name, false)
	return nil
}

// Withdraw takes a type back. Its streams end: terminated, NotFound. It reports
// whether the type was there.
func (s *Server) Withdraw(name string) bool {
	s.mu.Lock()
	o := s.offers[name]
	if o == nil { // and an empty name is not all of them
		s.mu.Unlock()
		return false
	}
	delete(s.offers, name)
	detach(o)
	s.pokeLocked(name, refuse(NotFound, "kind", "event"))
	s.mu.Unlock()
	s.changed(name, true)
	return true
}

// Replace changes a type that is offered, and refuses one that is not. Streams go
// on with the new type, unless the change breaks something: then they end,
// terminated, Unsupported. A change that only adds optional members to the
// schemas breaks nothing; a stream whose own arguments the new input schema
// refuses is ended whatever is said here. A breaking change is better offered
// under a new name, beside the old one for a while.
//
// Where webhooks deliver the type, a break is written to their store first: it
// ends subscriptions after a restart, too. If the store fails, so does Replace, and
// nothing has changed.
func (s *Server) Replace(t Type, breaks Break) error {
	if breaks != BreaksNothing && breaks != BreaksInput && breaks != BreaksPayload {
		return fmt.Errorf("mcpevents: type %q: %q is no Break", t.Name, breaks)
	}
	o, err := s.newOffer(t)
	if err != nil {
		return err
	}
	if old := s.offer(t.Name); old != nil && breaks != BreaksNothing && slices.Contains(old.modes, Webhook) {
		if err := s.webhooks.begin(context.Background(), o, breaks); err != nil { // its calls have limits of their own
			return fmt.Errorf("mcpevents: type %q: the subscription store: %w", t.Name, err)
		}
	}
	s.mu.Lock()
	old := s.offers[t.Name]
	if old == nil {
		s.mu.Unlock()
		return fmt.Errorf("mcpevents: type %q is not offered", t.Name)
	}
	s.offers[t.Name] = o
	var over error
	if breaks != BreaksNothing {
		over = schemaChanged(breaks)
	}
	detach(old)
	s.attachLocked(o)
	s.pokeLocked(t.Name, over)
	s.mu.Unlock()
	s.changed(t.Name, false)
	return nil
}

// changed tells who is concerned that a type came, went or changed.
func (s *Server) changed(name string, gone bool) {
	s.listChanged()
	if s.webhooks != nil {
		s.webhooks.changed(name, gone)
	}
}

// schemaChanged ends what subscribed before a breaking change.
func schemaChanged(b Break) *Error {
	return refuse(Unsupported, "feature", string(b), "reason", "schema_changed")
}

// attachLocked lets a log make events ready as they come.
func (s *Server) attachLocked(o *offer) {
	if l, ok := o.Backend.(*Log); ok && l != nil && !s.closed {
		l.attach(o)
	}
}

// detachLocked leaves the logs: what they are given is not this server's any more.
func (s *Server) detachLocked() {
	for _, o := range s.offers {
		detach(o)
	}
}

func detach(o *offer) {
	if l, ok := o.Backend.(*Log); ok && l != nil {
		l.detach(o)
	}
}

// offer is the type of a name.
func (s *Server) offer(name string) *offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers[name]
}
