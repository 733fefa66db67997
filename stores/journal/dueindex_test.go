package journal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// The index does what a sorted list does, and its blocks don't get sparse.
func TestDueIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x journal.DueIndex
	var want []journal.DueKey
	key := func(span int) journal.DueKey {
		return journal.DueKey{At: int64(r.IntN(span)) - 50, Scope: attend.Scope(fmt.Sprint(r.IntN(50)))}
	}
	for i := range 60_000 {
		span := []int{100, 20_000, 200}[i/20_000]
		k := key(span)
		at, found := slices.BinarySearchFunc(want, k, compareKeys)
		switch {
		case found && r.IntN(2) == 0:
			x.Remove(k)
			want = slices.Delete(want, at, at+1)
		case !found && i < 40_000:
			x.Insert(k)
			want = slices.Insert(want, at, k)
		}
		absent := journal.DueKey{At: k.At, Scope: "absent"}
		x.Remove(absent)
		// The last part empties it again.
		if i >= 40_000 && len(want) > 0 {
			at := r.IntN(len(want))
			x.Remove(want[at])
			want = slices.Delete(want, at, at+1)
		}
		if i%97 == 0 {
			after, upTo, n := key(span), int64(r.IntN(span)), 1+r.IntN(300)
			from, found := slices.BinarySearchFunc(want, after, compareKeys)
			if found {
				from++
			}
			var page []journal.DueKey
			for _, k := range want[from:] {
				if k.At <= upTo && len(page) < n {
					page = append(page, k)
				}
			}
			if got := x.Page(after, upTo, n); !slices.Equal(got, page) {
				t.Fatalf("after %d changes, Page(%v, %d, %d) = %v, want %v", i, after, upTo, n, got, page)
			}
			if blocks := x.Blocks(); blocks > 4+len(want)/32 {
				t.Fatalf("after %d changes there are %d keys in %d blocks", i, len(want), blocks)
			}
		}
	}
	if !slices.Equal(x.Keys(), want) {
		t.Error("the keys differ in the end")
	}
}
