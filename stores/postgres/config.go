package postgres

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Config says where a store is and how much it keeps. The zero Config is a
// store with the prefix "attend_" that keeps everything and is polled.
type Config struct {
	// Prefix begins the names of all tables: 1 to 40 lower-case letters, digits
	// and underscores, the first no digit. Stores with different prefixes share
	// a database and know nothing of each other. Empty: "attend_".
	Prefix string

	// Retain is how much the log keeps; the zero Retain keeps everything. It is
	// applied in the background, in small steps, by one process at a time. In a
	// [Store] an age counts from the newest row's time, not from a clock, so
	// that a log replayed from last year is not emptied; in an [EventLog] from
	// when the server took the event, and Count is of all its events. What goes
	// is always the oldest rows: one that is too old waits for those before it,
	// but not for those whose time is later than the newest row's, or than the
	// server's clock.
	Retain attend.Retain

	// Timeout bounds each call, and each page of an iterator; a context may end
	// it sooner. Zero: 10 s.
	Timeout time.Duration

	// Listen is a connection string for a connection of its own, over which the
	// server tells of new rows. It must lead to the server itself, not to a
	// pooler. A connection that broke or fell silent is made again; until then
	// the log is polled. Empty: the log is polled.
	Listen string

	// Poll is how often a log that somebody waits for is asked for news that no
	// notification told of. Commits of the same Store are told at once. Zero:
	// 250 ms.
	Poll time.Duration

	// Role is the role that Migrate lets use the tables: SELECT, INSERT, UPDATE
	// and DELETE. Empty: nobody but their owner may, unless granted by hand. A
	// store has no use for it.
	Role string

	// Logger hears of what goes wrong in the background. Nil: [slog.Default].
	Logger *slog.Logger
}

const (
	defaultPrefix  = "attend_"
	defaultTimeout = 10 * time.Second
	defaultPoll    = 250 * time.Millisecond

	// maxPrefix leaves room for the longest name of a table or index: an
	// identifier has 63 bytes.
	maxPrefix = 40
)

// withDefaults checks c and fills in what is zero.
func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if !validPrefix(c.Prefix) {
		return c, &attend.InvalidError{
			Field: "Prefix",
			Want:  fmt.Sprintf("1 to %d lower-case letters, digits and underscores, the first no digit", maxPrefix),
		}
	}
	for _, d := range []struct {
		field string
		value *time.Duration
		zero  time.Duration
	}{{"Timeout", &c.Timeout, defaultTimeout}, {"Poll", &c.Poll, defaultPoll}} {
		if *d.value < 0 {
			return c, &attend.InvalidError{Field: d.field, Want: "0 or more"}
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.Retain.Count < 0 || c.Retain.Verdicts < 0 || c.Retain.Age < 0 {
		return c, &attend.InvalidError{Field: "Retain", Want: "0 or more"}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

func validPrefix(p string) bool {
	if len(p) == 0 || len(p) > maxPrefix || p[0] >= '0' && p[0] <= '9' {
		return false
	}
	for i := range len(p) {
		if c := p[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// named puts the names of the prefix's tables into a text of SQL, where they
// stand in braces.
func (c Config) named(sql string) string {
	return strings.NewReplacer("{", c.Prefix, "}", "").Replace(sql)
}
