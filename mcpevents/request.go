package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"
)

// The batch of a poll: what it is without a wish, the most that can be wished
// for, and the bytes of data after which it is cut.
const (
	defaultBatch  = 100
	maxBatch      = 1000
	maxBatchBytes = 4 << 20
)

// maxCursorBytes is the most that a cursor may have.
const maxCursorBytes = 4 << 10

// unreadable is a position that no backend has.
const unreadable Cursor = "\x00"

// A request is what poll, stream and subscribe have in common, read and checked
// but for the permission.
type request struct {
	offer  *offer
	sub    Subscription
	cursor Cursor        // empty is from now on
	maxAge time.Duration // negative is none
	limit  int
}

// request reads params in the order that errors take precedence in: principal,
// name, mode, arguments.
func (s *Server) request(ctx context.Context, p *pollParams, mode Mode) (*request, error) {
	if p == nil {
		p = &pollParams{}
	}
	principal, err := s.principal(ctx)
	if err != nil {
		return nil, err
	}
	name, ok := stringOf(p.Name)
	if !ok {
		return nil, invalid("/name", "must be a string")
	}
	o := s.offer(name)
	if o == nil {
		return nil, refuse(NotFound, "kind", "event")
	}
	if ok, err := s.visible(ctx, o, principal); err != nil || !ok {
		return nil, refuse(NotFound, "kind", "event")
	}
	if !slices.Contains(o.modes, mode) {
		return nil, refuse(Unsupported, "feature", "deliveryMode", "value", string(mode))
	}
	r := &request{offer: o, sub: Subscription{Principal: principal, Name: name}}
	if r.sub.Arguments, err = o.arguments(p.Arguments); err != nil {
		return nil, err
	}
	if r.cursor, err = cursorOf(p.Cursor); err != nil {
		return nil, err
	}
	if r.maxAge, err = ageOf(p.MaxAge); err != nil {
		return nil, err
	}
	if r.limit, err = limitOf(p.MaxEvents); err != nil {
		return nil, err
	}
	return r, nil
}

// arguments checks a subscription's arguments and makes them canonical.
func (o *offer) arguments(raw json.RawMessage) (json.RawMessage, error) {
	arguments, fault := canonical(raw)
	if fault != "" {
		return nil, invalid("/arguments", "arguments "+fault)
	}
	if err := o.input.check(arguments); err != nil { // said to who sent them, and nobody else
		return nil, invalid("/arguments", short(err.Error()))
	}
	return arguments, nil
}

// short bounds what a schema says of a value that may be long.
func short(text string) string {
	if len(text) > 500 {
		return string(bytes.ToValidUTF8([]byte(text[:500]), nil)) + "…"
	}
	return text
}

// permit asks whether the subscription is allowed, for a heartbeat at most.
func (s *Server) permit(ctx context.Context, o *offer, sub Subscription) error {
	if o.Check == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Heartbeat)
	defer cancel()
	_, err := guarded(s, "Check", func() (struct{}, error) { return struct{}{}, o.Check(ctx, sub) })
	return err
}

// visible asks whether a principal may know of the type; on an error that is not
// known, which counts as no until the next time.
func (s *Server) visible(ctx context.Context, o *offer, principal string) (bool, error) {
	if o.Visible == nil {
		return true, nil
	}
	return guarded(s, "Visible", func() (bool, error) { return o.Visible(ctx, principal), nil })
}

func (s *Server) principal(ctx context.Context) (string, error) {
	return guarded(s, "Principal", func() (string, error) { return s.config.Principal(ctx), nil })
}

// notBefore is the time that replay begins at: what the client or the server
// bounds it by, the later.
func (s *Server) notBefore(maxAge time.Duration) time.Time {
	var floor time.Time
	now := time.Now()
	if maxAge >= 0 {
		floor = now.Add(-maxAge)
	}
	if s.config.MaxReplay > 0 {
		if t := now.Add(-s.config.MaxReplay); t.After(floor) {
			floor = t
		}
	}
	return floor
}

// absent reports whether a param is not there, or null.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}

func stringOf(raw json.RawMessage) (string, bool) {
	var v *string
	if json.Unmarshal(raw, &v) != nil || v == nil {
		return "", false
	}
	return *v, true
}

func cursorOf(raw json.RawMessage) (Cursor, error) {
	if absent(raw) {
		return "", nil
	}
	c, ok := stringOf(raw)
	if !ok {
		return "", invalid("/cursor", "must be a string or null")
	}
	if c == "" || len(c) > maxCursorBytes {
		return unreadable, nil // a string all the same
	}
	return Cursor(c), nil
}

// ageOf reads maxAgeMs; -1 is none.
func ageOf(raw json.RawMessage) (time.Duration, error) {
	if absent(raw) {
		return -1, nil
	}
	ms, ok := wholeOf(raw)
	if !ok || ms < 0 {
		return 0, invalid("/maxAgeMs", "must be an integer of at least 0")
	}
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)/2)) * time.Millisecond, nil
}

func limitOf(raw json.RawMessage) (int, error) {
	if absent(raw) {
		return defaultBatch, nil
	}
	n, ok := wholeOf(raw)
	if !ok || n < 1 {
		return 0, invalid("/maxEvents", "must be an integer of at least 1")
	}
	return int(min(n, maxBatch)), nil
}

// wholeOf reads a number without a fraction; what is too large is the largest.
func wholeOf(raw json.RawMessage) (int64, bool) {
	var n json.Number
	if len(raw) == 0 || raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		return 0, false
	}
	if i, err := n.Int64(); err == nil {
		return i, true
	}
	f, err := n.Float64()
	switch {
	case err != nil || f != math.Trunc(f):
		return 0, false
	case f >= math.MaxInt64:
		return math.MaxInt64, true
	case f <= math.MinInt64:
		return math.MinInt64, true
	}
	return int64(f), true
}
