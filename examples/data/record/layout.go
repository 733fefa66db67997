package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// start is when the day begins.
var start = time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)

// maxShift is how far one scope's day can lie behind another's.
const maxShift = 9 * time.Minute

// A burst is a run of events that come together. It is played once in each
// scope for as long as that scope has payloads for one of its steps: the first
// round takes the first payload of each step, the second round the second. A
// step without a payload takes its time too.
type burst struct {
	at    time.Duration // of the first round, after start
	every time.Duration // from one round to the next
	steps []step
}

// A step is one event of a burst.
type step struct {
	role  string        // see role; each role is in the day once
	after time.Duration // after the step before it, up to a quarter more or less
}

// role is a payload's part in the day: its name, and for a push what it pushed,
// since all pushes have one name.
func role(p payload) string {
	if p.event != "push" {
		return p.name()
	}
	switch {
	case p.at("deleted") == true:
		return "push deletion"
	case strings.HasPrefix(p.str("ref"), "refs/tags/"):
		return "push tag"
	}
	return "push"
}

// A placed payload has its time.
type placed struct {
	payload
	at time.Time
}

// layout gives each payload its time in the day, and sorts by it. It fails for
// a payload that has no step.
func layout(list []payload) ([]placed, error) {
	type key struct{ scope, role string }
	waiting := make(map[key][]payload) // in the package's order
	var scopes []string
	for _, p := range list {
		k := key{p.scope(), role(p)}
		waiting[k] = append(waiting[k], p)
		scopes = append(scopes, k.scope)
	}
	slices.Sort(scopes)

	var out []placed
	for _, scope := range slices.Compact(scopes) {
		for _, b := range day {
			at := start.Add(b.at + spread(maxShift, scope))
			for round := 0; ; round++ {
				now, played := at.Add(time.Duration(round)*b.every), false
				for _, s := range b.steps {
					k := key{scope, s.role}
					now = now.Add(s.after*3/4 + spread(s.after/2, scope, s.role, strconv.Itoa(round)))
					if len(waiting[k]) == 0 {
						continue
					}
					out = append(out, placed{waiting[k][0], now.Truncate(time.Millisecond)})
					waiting[k] = waiting[k][1:]
					played = true
				}
				if !played {
					break
				}
			}
		}
	}
	for _, p := range list {
		if k := (key{p.scope(), role(p)}); len(waiting[k]) > 0 {
			return nil, fmt.Errorf("%s: the day has no step for %s", p.id(), k.role)
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.scope(), b.scope()))
	})
	return out, nil
}

// spread is a duration below width that looks drawn, and is the same each time
// for the same words.
func spread(width time.Duration, words ...string) time.Duration {
	if width <= 0 {
		return 0
	}
	h := fnv.New64a()
	for _, w := range words {
		h.Write([]byte(w + "\x00"))
	}
	return time.Duration(h.Sum64() % uint64(width))
}
