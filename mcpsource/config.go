package mcpsource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
)

// What a [Config] that says nothing else means.
const (
	defaultPollInterval = 10 * time.Second
	defaultIdleTimeout  = 5 * time.Minute
)

// maxServerBytes leaves room in a key for everything else.
const maxServerBytes = 512

// A Config says what to subscribe to, and how. Name is required.
type Config struct {
	// Name is the type of event: 1 to 256 bytes of UTF-8 without control
	// characters, like the name of any event in attend.
	Name string
	// Arguments is a JSON object, as the type's input schema has it. Nil: {}.
	Arguments json.RawMessage
	// Server tells two servers apart whose events go into one scope. It is part
	// of the key: what it is called must stay the same for ever. At most 512
	// bytes of UTF-8 without control characters, of which a colon and a percent
	// sign count three each; empty by default.
	Server string
	// Mode is the way of delivery to use, and no other. Empty: a webhook where
	// there is a Receiver, else push, else poll, of those that the server has for
	// the type.
	Mode mcpevents.Mode
	// Receiver takes the deliveries of a webhook. It is an http.Handler that the
	// app serves under the URL that it was made with. Nil: webhooks are not used.
	Receiver *mcpevents.Receiver
	// MaxAge has the server replay nothing older after a break; what is left out
	// shows as a gap. 0: there is no such bound.
	MaxAge time.Duration
	// PollInterval is the time between two polls where the server does not say;
	// default 10 s.
	PollInterval time.Duration
	// IdleTimeout is how long a stream may be silent, without event or heartbeat;
	// default 5 min.
	IdleTimeout time.Duration
	// MaxBuffered is how many notifications of a stream on a pipe may wait for a
	// slow store; 0: what the session says, 1000 by default. Over HTTP the server
	// is held back instead.
	MaxBuffered int
	// Permanent says which errors end the source, beside those that are an
	// [attend.PermanentError] already. Nil: the function [Permanent].
	Permanent func(error) bool
	// OnError hears of what does not end the source: what the server reports on
	// a stream that goes on ([mcpevents.FailureError]), data that does not
	// conform to its schema and was taken all the same
	// ([mcpevents.MismatchError]), what was dropped ([mcpevents.DroppedError]), a
	// stream that overflowed or was silent ([mcpevents.ErrOverflow],
	// [mcpevents.ErrIdle]), and what belongs to no stream of the session
	// ([mcpevents.StrayError]; every source on it hears). It is called between
	// batches, and must not block for long. Nil: nobody hears.
	OnError func(error)
}

// withDefaults checks c and fills in what it leaves out.
func (c Config) withDefaults() (Config, error) {
	if _, err := (attend.Event{ID: "x", Name: c.Name}).Clean(); err != nil {
		return c, &attend.InvalidError{Field: "Name", Want: "1 to 256 bytes of UTF-8 without control characters"}
	}
	if c.Server != "" {
		if _, err := (attend.Event{ID: "x", Name: "x", Source: c.Server}).Clean(); err != nil || len(escape(c.Server)) > maxServerBytes {
			return c, &attend.InvalidError{Field: "Server", Want: "at most 512 bytes of UTF-8 without control characters"}
		}
	}
	args, err := mcpevents.Canonical(c.Arguments)
	if err != nil {
		return c, fmt.Errorf("%w: %w", &attend.InvalidError{Field: "Arguments", Want: "a JSON object"}, err)
	}
	c.Arguments = args
	switch c.Mode {
	case "", mcpevents.Poll, mcpevents.Push:
	case mcpevents.Webhook:
		if c.Receiver == nil {
			return c, &attend.InvalidError{Field: "Receiver", Want: "a value, webhooks need one"}
		}
	default:
		return c, &attend.InvalidError{Field: "Mode", Want: "poll, push, webhook, or nothing"}
	}
	for _, d := range []struct {
		name string
		to   *time.Duration
		def  time.Duration
	}{
		{"MaxAge", &c.MaxAge, 0}, {"PollInterval", &c.PollInterval, defaultPollInterval}, {"IdleTimeout", &c.IdleTimeout, defaultIdleTimeout},
	} {
		if *d.to < 0 {
			return c, &attend.InvalidError{Field: d.name, Want: "a duration that is not negative"}
		}
		*d.to = cmp.Or(*d.to, d.def)
	}
	if c.MaxBuffered < 0 {
		return c, &attend.InvalidError{Field: "MaxBuffered", Want: "a count that is not negative"}
	}
	if c.Permanent == nil {
		c.Permanent = Permanent
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	return c, nil
}
