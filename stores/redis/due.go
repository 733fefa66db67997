package redis

import (
	"context"
	"iter"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

// duePage is how many due scopes are read at a time.
const duePage = 500

// Due yields the scopes that are due, as [attend.ScopeStore] says. Each page
// begins behind the last one's place in the index; what a page costs doesn't
// depend on how many scopes there are.
func (s *Store) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		at, name := "", ""
		for {
			page, err := s.duePage(ctx, now, at, name)
			if err != nil {
				yield("", err)
				return
			}
			for i := 0; i < len(page); i += 2 {
				if !yield(attend.Scope(page[i]), nil) {
					return
				}
			}
			if len(page) < 2*duePage {
				return
			}
			name, at = page[len(page)-2], page[len(page)-1]
		}
	}
}

// duePage returns names and times behind a place in the index.
func (s *Store) duePage(ctx context.Context, now time.Time, at, name string) ([]string, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	out, err := s.run(ctx, dueScript, call{
		keys: []string{s.head, s.keys.due()},
		args: []string{schema, strconv.FormatInt(now.UnixMilli(), 10), strconv.Itoa(duePage), at, name},
	})
	if err != nil {
		return nil, s.failed(ctx, "due", err)
	}
	return out[1:], nil
}
