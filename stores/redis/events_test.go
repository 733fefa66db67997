package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

var noon = time.UnixMilli(1_700_000_000_000)

func contains(s, part string) bool { return strings.Contains(s, part) }

func push(t testing.TB, l *redis.EventLog, ids ...string) {
	t.Helper()
	var all []attend.Event
	for _, id := range ids {
		all = append(all, attend.Event{ID: id, Name: "test.happened"})
	}
	if err := l.Append(t.Context(), "ops", all); err != nil {
		t.Fatal(err)
	}
}

// events reads the ids behind a cursor, the cursor behind them, and whether
// there was a gap.
func events(t testing.TB, l *redis.EventLog, after attend.Cursor) (ids []string, _ attend.Cursor, gap bool) {
	t.Helper()
	for b, err := range l.Batches(t.Context(), "ops", after) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			ids = append(ids, e.ID)
		}
		after, gap = b.Cursor, gap || b.Gap
	}
	return ids, after, gap
}

// What was trimmed leaves nothing behind but its scope's mark.
func TestEventLogRetains(t *testing.T) {
	url := servers.Redis(t).URL()
	c := connect(t, url)
	o := quiet()
	o.Retain = attend.Retain{Age: 50 * time.Millisecond}
	l := openEvents(t, url, o)
	for i := range 600 {
		scope := attend.Scope("s-" + string(rune('a'+i%20)))
		if err := l.Append(t.Context(), scope, []attend.Event{{ID: fmt.Sprint(i), Name: "n"}}); err != nil {
			t.Fatal(err)
		}
	}
	i := 0
	eventually(t, "all but the last events are trimmed by age", func() bool {
		i++
		push(t, l, fmt.Sprint("last-", i)) // retention comes with what is appended
		time.Sleep(60 * time.Millisecond)
		n, err := c.do("XLEN", o.Prefix+"events").AsInt64()
		return err == nil && n <= 1
	})
	keys := c.keys(o.Prefix)
	if len(keys) > 5 {
		t.Errorf("a log of one event has the keys %q", keys)
	}
}
