package redis_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		scope attend.Scope
		want  []string
	}{
		{"", nil},
		{"ops", []string{"ops"}},
		{"ops/db:1", []string{"ops", "ops/db", "ops/db:1"}},
		{"ops//db", []string{"ops", "ops/", "ops//db"}},
		{"/a", []string{"/a"}},
		{"a/", []string{"a", "a/"}},
		{"1/2/3/4/5/6/7/8/9/10", []string{"1", "1/2", "1/2/3", "1/2/3/4", "1/2/3/4/5", "1/2/3/4/5/6", "1/2/3/4/5/6/7", "1/2/3/4/5/6/7/8"}},
	} {
		if got := redis.Levels(c.scope); !slices.Equal(got, c.want) {
			t.Errorf("levels(%q) = %q, want %q", c.scope, got, c.want)
		}
	}
	// Whatever a prefix covers is in the list that is read for it.
	const alphabet = "ab/:"
	for range 200_000 {
		var b strings.Builder
		for range rand.IntN(24) {
			b.WriteByte(alphabet[rand.IntN(len(alphabet))])
		}
		scope := attend.Scope(b.String())
		p := attend.Prefix(scope[:rand.IntN(len(scope)+1)])
		if level := redis.LevelOf(p); p.Covers(scope) && level != "" && !slices.Contains(redis.Levels(scope), level) {
			t.Fatalf("%q covers %q, and is read from the list of %q, which is none of its %q", p, scope, level, redis.Levels(scope))
		}
	}
}

// calls is how often the server ran a command, or how much time it took for it.
func calls(t testing.TB, c raw, command string) int {
	t.Helper()
	text, err := c.do("INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// What a reader or waiter pays depends on what it finds, not on what else the
// log holds.
func TestReadCosts(t *testing.T) {
	server := start(t, map[string]string{"appendfsync": "no"})
	c := connect(t, server.URL())
	s := open(t, server.URL(), quiet())
	const noise = 20_000
	var writes []attend.Write
	for i := range noise / 100 {
		var rows []attend.Row
		for j := range 50 {
			v := row(attend.Scope(fmt.Sprint("ops/", j)), attend.DecisionID(fmt.Sprint("v", i, "-", j)))
			v.Type = attend.RowVerdict
			rows = append(rows, v, row(attend.Scope(fmt.Sprint("noise/", j)), attend.DecisionID(fmt.Sprint("n", i, "-", j))))
		}
		if i%100 == 0 {
			rows = append(rows, row("ops/db/1", attend.DecisionID(fmt.Sprint("d", i))))
		}
		writes = append(writes, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: rows})
	}
	put(t, s, writes...)
	letter := row("rare", "l")
	letter.Type = attend.RowLetter
	put(t, s, attend.Write{Scope: "rare", Rows: []attend.Row{letter}})

	end := newest(t, s)
	for _, x := range []struct {
		name string
		q    attend.Query
		want int
	}{
		{"of a prefix", attend.Query{Prefix: "ops"}, 2},
		{"of a prefix with a border", attend.Query{Prefix: "ops/"}, 2},
		{"of a scope", attend.Query{Prefix: "ops/db/1"}, 2},
		{"of letters", attend.Query{Types: []attend.RowType{attend.RowLetter}}, 1},
		{"of decisions and letters of a prefix", attend.Query{Prefix: "ops", Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}, 2},
		{"of a prefix that there isn't", attend.Query{Prefix: "nobody"}, 0},
		{"at the end of all", attend.Query{After: end, Types: []attend.RowType{attend.RowDecision, attend.RowVerdict}}, 0},
		{"at the end of a prefix", attend.Query{After: end, Prefix: "noise"}, 0},
	} {
		before := calls(t, c, "xrange") + calls(t, c, "lrange") + calls(t, c, "lindex")
		if got := count(t, s.Log().Read(t.Context(), x.q)); got != x.want {
			t.Errorf("a read %s finds %d rows, want %d", x.name, got, x.want)
		}
		if n := calls(t, c, "xrange") + calls(t, c, "lrange") + calls(t, c, "lindex") - before; n > 10 {
			t.Errorf("a read %s that finds %d of %d rows takes %d commands", x.name, x.want, noise, n)
		}
	}
	before := calls(t, c, "lindex")
	middle, err := s.Log().Find(t.Context(), "n100-0", "")
	if err != nil {
		t.Fatal(err)
	}
	count(t, s.Log().Read(t.Context(), attend.Query{After: middle.Cursor, Prefix: "noise/1"}))
	if n := calls(t, c, "lindex") - before; n > 20 {
		t.Errorf("to find its place in a list of %d a read takes %d looks, want about 8", noise/100, n)
	}
}

// When all rows are gone, only the head and the streams are left.
func TestTrimLeavesNothing(t *testing.T) {
	url := servers.Redis(t).URL()
	c := connect(t, url)
	o := quiet()
	s := open(t, url, o)
	for i := range 30 {
		var rows []attend.Row
		for j := range 50 {
			r := row(attend.Scope(fmt.Sprintf("a/%d/%d", j%7, j)), attend.DecisionID(fmt.Sprint(i*j)))
			r.Type = []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}[rand.IntN(3)]
			rows = append(rows, r)
		}
		put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: rows})
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 321, Verdicts: 123}, noon); err != nil {
		t.Fatal(err)
	}
	both := attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}
	verdicts := attend.Query{Types: []attend.RowType{attend.RowVerdict}}
	if a, b := count(t, s.Log().Read(t.Context(), both)), count(t, s.Log().Read(t.Context(), verdicts)); a != 321 || b != 123 {
		t.Errorf("after Trim to 321 and 123 there are %d and %d rows", a, b)
	}
	both.Prefix, verdicts.Prefix = "a", "a"
	if a, b := count(t, s.Log().Read(t.Context(), both)), count(t, s.Log().Read(t.Context(), verdicts)); a != 321 || b != 123 {
		t.Errorf("after Trim to 321 and 123 the lists have %d and %d rows", a, b)
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Age: time.Second}, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := s.Remove(t.Context(), attend.Scope(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{o.Prefix + "head", o.Prefix + "log:decision", o.Prefix + "log:letter", o.Prefix + "log:verdict", o.Prefix + "mark"}
	if got := c.keys(o.Prefix); !slices.Equal(got, want) {
		t.Errorf("a store whose rows and scopes are gone has keys %q, want %q", got, want)
	}
}

// Retain works by itself: by count for each class, and by the age of rows.
func TestRetain(t *testing.T) {
	url := servers.Redis(t).URL()
	for _, x := range []struct {
		name string
		keep attend.Retain
		want int
	}{{"count", attend.Retain{Count: 30}, 30}, {"age", attend.Retain{Age: 29 * time.Minute}, 30}} {
		o := quiet()
		o.Retain = x.keep
		s := open(t, url, o)
		for i := range 500 {
			d, v := row("ops", attend.DecisionID(fmt.Sprint(i))), row("ops", "v")
			d.At, v.Type, v.At = noon.Add(time.Duration(i)*time.Minute), attend.RowVerdict, noon.Add(time.Duration(i)*time.Minute)
			put(t, s, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: []attend.Row{d, v}})
		}
		eventually(t, "the log is trimmed by "+x.name, func() bool {
			got, err := ids(t, s, attend.LogCursor{})
			return err == nil && len(got) == x.want // not so in the middle of it
		})
		verdicts := 0
		eventually(t, "the verdict rows are read", func() bool {
			verdicts = 0
			for _, err := range s.Log().Read(t.Context(), attend.Query{Types: []attend.RowType{attend.RowVerdict}}) {
				if err != nil {
					return false // they are being trimmed
				}
				verdicts++
			}
			return true
		})
		if x.keep.Age == 0 && verdicts != 500 || x.keep.Age > 0 && verdicts > 500 {
			t.Errorf("with %+v there are %d of 500 verdict rows", x.keep, verdicts)
		}
	}
}

// Two that trim, and readers meanwhile: every reader finds each row once and in
// order, or is told that it was truncated.
func TestTrimTogether(t *testing.T) {
	o := quiet()
	a, b := open(t, servers.Redis(t).URL(), o), open(t, servers.Redis(t).URL(), o)
	for i := range 40 {
		var rows []attend.Row
		for j := range 50 {
			rows = append(rows, row("ops", attend.DecisionID(fmt.Sprint(i*50+j))))
		}
		put(t, a, attend.Write{Scope: attend.Scope(fmt.Sprint(i)), Rows: rows})
	}
	done := make(chan error, 2)
	for _, s := range []*redis.Store{a, b} {
		go func() {
			for n := 2000; n >= 100; n -= 100 {
				if err := s.Log().Trim(t.Context(), attend.Retain{Count: n}, noon); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for running := 2; running > 0; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running--
		default:
		}
		next := -1
		for e, err := range a.Log().Read(t.Context(), attend.Query{Prefix: "ops"}) {
			if err != nil {
				break
			}
			n, _ := strconv.Atoi(string(e.ID))
			if next >= 0 && n != next {
				t.Fatalf("a reader finds row %d behind %d, and no error", n, next-1)
			}
			next = n + 1
		}
	}
	if got := count(t, a.Log().Read(t.Context(), attend.Query{})); got != 100 {
		t.Errorf("after two trimmed to 100 there are %d rows", got)
	}
}
