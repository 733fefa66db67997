package redis

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Config says where a store or an event log is kept, and how much of it. The
// zero Config means the defaults.
type Config struct {
	// Prefix begins every key. It holds a hash tag, a word in braces, so that a
	// cluster keeps all the keys in one place: attend:{app}: is one for the app
	// of that name. It has at most 128 bytes and no spaces or control
	// characters, and none that mean something in a pattern. No prefix on one
	// server may begin with another one. A store and an event log can share one.
	// Default attend:{attend}:
	Prefix string
	// Retain is applied in the background, in small steps, after calls of this
	// handle that add to the log; so a log may hold a little more for a while.
	// In a [Store] an age counts from the newest row's time, not from a clock;
	// in an [EventLog] from the moment an event was appended, by the clock of
	// its producer's machine, and Count is of all events of the log. What goes
	// is always the oldest rows: one that is too old waits for those before it,
	// but not for those whose time is later than the newest row's, or than the
	// clock's. Zero: keep everything.
	Retain attend.Retain
	// Timeout is how long a call may take whose context has no deadline, those
	// that wait apart. A Read or Due may take that long for each of its pages.
	// A connection of [Open]'s own counts as dead when the server says nothing
	// for half of it. Default 10 s.
	Timeout time.Duration
	// Logger gets a line when a store is opened, when a log gets a new epoch,
	// and when retention fails. Default [slog.Default].
	Logger *slog.Logger
}

const (
	defaultPrefix  = "attend:{attend}:"
	defaultTimeout = 10 * time.Second
	maxPrefix      = 128
)

// fill returns c with defaults in place, or an error that is
// [attend.ErrInvalid].
func (c Config) fill() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if !tagged(c.Prefix) {
		return c, &attend.InvalidError{Field: "Prefix", Want: "a hash tag, such as attend:{app}: whose tag is app"}
	}
	if len(c.Prefix) > maxPrefix || strings.ContainsFunc(c.Prefix, unfit) {
		return c, &attend.InvalidError{Field: "Prefix", Want: "at most 128 printable ASCII characters, without spaces and * ? [ ] ^ \\"}
	}
	if c.Timeout < 0 {
		return c, &attend.InvalidError{Field: "Timeout", Want: "a time above zero"}
	}
	if c.Retain.Count < 0 || c.Retain.Verdicts < 0 || c.Retain.Age < 0 {
		return c, &attend.InvalidError{Field: "Retain", Want: "no field below zero"}
	}
	return c, nil
}

// tagged reports whether a cluster keeps all keys with this prefix in one slot:
// it looks at what is between the first brace and the next closing one.
func tagged(prefix string) bool {
	_, rest, open := strings.Cut(prefix, "{")
	return open && strings.Index(rest, "}") > 0
}

// unfit reports whether a character is not for a prefix.
func unfit(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`*?[]^\`, r) }
