package storebench

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// sizeGroup is how many scopes a commit is about while a store is filled.
const sizeGroup = 1024

// size is what a store takes, first with a million scopes that have a due time
// and an input of 200 bytes each, then with a decision of 400 bytes for each of
// them, then once the log was trimmed to its last tenth, and when as many
// decisions have come again as went. One round tells it all.
func (s Subject) size(b *testing.B) {
	if s.Bytes == nil {
		b.Skip("the subject does not say how much of the disk it takes")
	}
	n := cmp.Or(s.Stored, 1_000_000)
	sizes := append([]Size{{"", s.Bytes}}, s.Sizes...)
	measured := false
	for b.Loop() {
		if measured {
			continue
		}
		measured = true
		store := s.New(b)
		var stages [][]int64
		stage := func() {
			var all []int64
			for _, size := range sizes {
				all = append(all, size.Bytes(b, store))
			}
			stages = append(stages, all)
		}
		stage()
		l := newSizeLoad(n)
		if err := l.scopes(b.Context(), store); err != nil {
			b.Fatal(err)
		}
		stage()
		if err := l.decisions(b.Context(), store, n); err != nil {
			b.Fatal(err)
		}
		stage()
		if err := store.Log().Trim(b.Context(), attend.Retain{Count: n / 10}, epoch); err != nil {
			b.Fatal(err)
		}
		stage()
		if err := l.decisions(b.Context(), store, n-n/10); err != nil {
			b.Fatal(err)
		}
		stage()
		for i, size := range sizes {
			name := size.Name
			if name != "" {
				name += "-"
			}
			empty, scopes, full, trimmed, again := stages[0][i], stages[1][i], stages[2][i], stages[3][i], stages[4][i]
			b.ReportMetric(float64(scopes-empty)/float64(n), name+"B/scope")
			b.ReportMetric(float64(full-scopes)/float64(n), name+"B/decision")
			for what, bytes := range map[string]int64{"full": full, "trimmed": trimmed, "again": again} {
				b.ReportMetric(float64(bytes)/(1<<20), name+"MiB-"+what)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// A sizeLoad fills a store.
type sizeLoad struct {
	w      *writer
	logged int
}

func newSizeLoad(n int) *sizeLoad {
	l := &sizeLoad{w: newWriter(0, n, 3)}
	l.w.silent = true
	return l
}

// scopes writes each scope for the first time.
func (l *sizeLoad) scopes(ctx context.Context, store attend.ScopeStore) error {
	for left := len(l.w.order); left > 0; left -= sizeGroup {
		writes, which := l.w.group(min(left, sizeGroup))
		out, err := store.Commit(ctx, writes)
		if err == nil {
			err = l.w.landed(writes, which, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decisions logs n more, each of the next scope and beside an empty input.
func (l *sizeLoad) decisions(ctx context.Context, store attend.ScopeStore, n int) error {
	for end := l.logged + n; l.logged < end; {
		var writes []attend.Write
		var which []int
		for range min(end-l.logged, sizeGroup) {
			i := l.w.order[l.logged%len(l.w.order)]
			l.logged++
			x := attend.Write{Scope: l.w.names[i], Expect: l.w.versions[i], KeepDue: true, Inputs: [][]byte{nil}}
			x.Rows = []attend.Row{{
				Scope: x.Scope, ID: attend.DecisionID(fmt.Sprintf("%040x", l.logged)), Type: attend.RowDecision,
				At: epoch, Body: random(l.w.rng, rowSize), // alike, they would be compressed
			}}
			writes, which = append(writes, x), append(which, i)
		}
		out, err := store.Commit(ctx, writes)
		if err == nil {
			err = l.w.landed(writes, which, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
