package redis_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

// Retention that has nothing to delete looks once at each stream, and not at all
// where there is no limit.
func TestRetainLooksAtLittle(t *testing.T) {
	server := start(t, map[string]string{"appendfsync": "no"})
	c := connect(t, server.URL())
	o := quiet()
	s, events := open(t, server.URL(), o), openEvents(t, server.URL(), o)
	var rows []attend.Row
	var all []string
	for i := range 600 {
		r := row("ops", attend.DecisionID(fmt.Sprint(i)))
		r.Type = []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}[i%3]
		rows, all = append(rows, r), append(all, fmt.Sprint(i))
	}
	put(t, s, attend.Write{Scope: "ops", Rows: rows})
	push(t, events, all...)
	costs := func(what string, most int, keep func() (int, error)) {
		t.Helper()
		before := calls(t, c, "xrange")
		if n, err := keep(); n != 0 || err != nil {
			t.Errorf("%s: retention that has nothing to do deletes %d rows, %v", what, n, err)
		}
		if n := calls(t, c, "xrange") - before; n > most {
			t.Errorf("%s: retention that has nothing to do takes %d reads, want at most %d", what, n, most)
		}
	}
	for _, x := range []struct {
		name  string
		keep  attend.Retain
		reads int
	}{
		{"both classes", attend.Retain{Count: 1000, Verdicts: 1000}, 3},
		{"by age", attend.Retain{Age: time.Hour}, 3},
		{"verdict rows alone", attend.Retain{Verdicts: 1000}, 1},
	} {
		o := redis.Config{Prefix: o.Prefix, Logger: o.Logger, Retain: x.keep}
		h := open(t, server.URL(), &o)
		for _, i := range []int{0, 2} {
			redis.Saw(h, rows[i])
		}
		costs(x.name, x.reads, func() (int, error) { return redis.Retain(t.Context(), h) })
	}
	o.Retain = attend.Retain{Count: 1000, Age: time.Hour}
	l := openEvents(t, server.URL(), o)
	costs("events", 1, func() (int, error) { return redis.RetainEvents(t.Context(), l) })
}

// Rows of which a page holds but a few are trimmed as others are.
func TestTrimLargeRows(t *testing.T) {
	url := servers.Redis(t).URL()
	o := quiet()
	o.Retain = attend.Retain{Count: 4}
	s := open(t, url, &redis.Config{Prefix: o.Prefix, Logger: o.Logger})
	for i := range 8 {
		r := row("ops", attend.DecisionID(fmt.Sprint(i)))
		r.Body = append(append([]byte(`"`), bytes.Repeat([]byte("x"), 600<<10)...), '"')
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: []attend.Row{r}})
	}
	if n, err := redis.Retain(t.Context(), open(t, url, o)); n != 4 || err != nil {
		t.Errorf("retention of 4 rows of 8 deletes %d, %v, want 4", n, err)
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 1}, noon); err != nil {
		t.Fatal(err)
	}
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || !slices.Equal(got, []string{"7"}) {
		t.Errorf("after Trim to one row the log has %v (%v), want the last", got, err)
	}
}

// many is a number, n times.
func many(n, minutes int) []int { return slices.Repeat([]int{minutes}, n) }

// A clock was put right, forth or back. What an hour's retention deletes is
// always the beginning of the log; nothing young goes; and rows of a clock that
// was ahead don't keep what is behind them for long.
func TestAgeWhereTheClockJumped(t *testing.T) {
	url := servers.Redis(t).URL()
	c := connect(t, url)
	const old, young, ahead, year = -100, -10, 100, 365 * 24 * 60
	for _, x := range []struct {
		name string
		at   []int // minutes from now
		gone int
	}{
		{"in order", []int{old, old, young, young}, 2},
		{"nothing old", []int{young, young}, 0},
		{"one ahead between old ones", []int{old, ahead, old, old, young}, 4},
		{"one ahead before all", []int{year, old, old, young}, 3},
		{"one ahead before young ones", []int{ahead, young, old, young}, 0},
		{"one ahead behind the old ones", []int{old, ahead, young}, 1},
		{"one behind, among young ones", []int{old, young, -year, young}, 1},
		{"many ahead", slices.Concat(many(500, year), many(250, old), many(5, young)), 750},
		{"many ahead, and young ones", slices.Concat(many(500, year), many(5, young)), 0},
	} {
		o := quiet()
		o.Retain = attend.Retain{Age: time.Hour}
		s, l := open(t, url, &redis.Config{Prefix: o.Prefix, Logger: o.Logger}), openEvents(t, url, &redis.Config{Prefix: o.Prefix, Logger: o.Logger})
		var rows []attend.Row
		var all []string
		for i, m := range append(x.at, 0) {
			r := row("ops", attend.DecisionID(fmt.Sprint(i)))
			r.At = noon.Add(time.Duration(m) * time.Minute)
			rows, all = append(rows, r), append(all, fmt.Sprint(i))
		}
		put(t, s, attend.Write{Scope: "ops", Rows: rows})
		h := open(t, url, o)
		redis.Saw(h, rows[len(rows)-1])
		if n, err := redis.Retain(t.Context(), h); n != x.gone || err != nil {
			t.Errorf("%s: retention deletes %d rows, %v, want %d", x.name, n, err, x.gone)
		}
		if got, err := ids(t, s, attend.LogCursor{}); err != nil || !slices.Equal(got, all[x.gone:]) {
			t.Errorf("%s: of %d rows %d are left (%v), want all but the first %d", x.name, len(all), len(got), err, x.gone)
		}

		push(t, l, all...)
		shift(t, c, o.Prefix+"events", x.at)
		if n, err := redis.RetainEvents(t.Context(), openEvents(t, url, o)); n != x.gone || err != nil {
			t.Errorf("%s: retention deletes %d events, %v, want %d", x.name, n, err, x.gone)
		}
		if got, _, _ := events(t, l, ""); !slices.Equal(got, all[x.gone:]) {
			t.Errorf("%s: of %d events %d are left, want all but the first %d", x.name, len(all), len(got), x.gone)
		}
	}
}

// shift writes a stream again, its first entries with other times.
func shift(t testing.TB, c raw, stream string, minutes []int) {
	t.Helper()
	entries, err := c.do("EVAL", `return redis.call('XRANGE', KEYS[1], '-', '+')`, "1", stream).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	c.do("DEL", stream)
	for i, e := range entries {
		parts, err := e.ToArray()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := parts[0].ToString()
		fields, err := parts[1].AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if i < len(minutes) {
			fields[5] = fmt.Sprint(time.Now().Add(time.Duration(minutes[i]) * time.Minute).UnixMilli())
		}
		c.do(append([]string{"XADD", stream, id}, fields...)...)
	}
}
