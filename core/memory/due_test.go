package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// A sorted slice is the obvious index.
func TestDueIndexAgainstASortedSlice(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		var x dueIndex
		var want []dueKey
		key := func() dueKey {
			return dueKey{int64(r.IntN(300)), attend.Scope(fmt.Sprint("s", r.IntN(40)))}
		}
		// Grow, shrink, and grow again, so that nodes split, join and vanish.
		for phase, grow := range []int{90, 10, 60, 5} {
			for range 4000 {
				k := key()
				if r.IntN(100) < grow {
					if i, ok := slices.BinarySearchFunc(want, k, dueKey.compare); !ok {
						want = slices.Insert(want, i, k)
						x.insert(k)
					}
					continue
				}
				if len(want) > 0 && r.IntN(4) > 0 {
					k = want[r.IntN(len(want))]
				}
				if i, ok := slices.BinarySearchFunc(want, k, dueKey.compare); ok {
					want = slices.Delete(want, i, i+1)
				}
				x.remove(k)
			}
			if got := all(&x); !slices.Equal(got, want) {
				t.Fatalf("seed %d, phase %d: the index has %d keys, want %d, or in another order", seed, phase, len(got), len(want))
			}
			checkNodes(t, x.root)
			for range 50 {
				after, now := key(), int64(r.IntN(320))
				got := x.page(after, now, make([]dueKey, 0, 10))
				var page []dueKey
				for _, k := range want {
					if k.compare(after) > 0 && k.at <= now && len(page) < 10 {
						page = append(page, k)
					}
				}
				if !slices.Equal(got, page) {
					t.Fatalf("seed %d: page(%v, %d) = %v, want %v", seed, after, now, got, page)
				}
			}
		}
		for _, k := range slices.Clone(want) {
			x.remove(k)
		}
		if n := all(&x); len(n) > 0 || x.root.kids != nil {
			t.Errorf("seed %d: %d keys and %d kids are left, want none", seed, len(n), len(x.root.kids))
		}
	}
}

func TestDueIndexStaysShallow(t *testing.T) {
	var x dueIndex
	const n = 100_000
	for i := range n {
		x.insert(dueKey{at: int64(i)})
	}
	// All but each hundredth go: the rest must not keep a node each.
	for i := range n {
		if i%100 != 0 {
			x.remove(dueKey{at: int64(i)})
		}
	}
	if nodes, keys := count(x.root); keys != n/100 || nodes > keys/8 {
		t.Errorf("%d keys in %d leaves, want %d in at most %d", keys, nodes, n/100, n/100/8)
	}
}

func all(x *dueIndex) []dueKey {
	return x.page(dueKey{at: math.MinInt64}, math.MaxInt64, make([]dueKey, 0, 1<<20))
}

func count(n *dueNode) (leaves, keys int) {
	if n == nil {
		return 0, 0
	}
	if n.kids == nil {
		return 1, len(n.keys)
	}
	for _, kid := range n.kids {
		l, k := count(kid)
		leaves, keys = leaves+l, keys+k
	}
	return leaves, keys
}

func checkNodes(t *testing.T, n *dueNode) (depth int) {
	t.Helper()
	if n == nil || n.kids == nil {
		return 0
	}
	if len(n.keys) != len(n.kids) || len(n.kids) == 0 || len(n.kids) >= dueFan {
		t.Fatalf("a node has %d keys and %d kids", len(n.keys), len(n.kids))
	}
	for i, kid := range n.kids {
		d := checkNodes(t, kid)
		if i > 0 && d != depth {
			t.Fatalf("leaves at depths %d and %d", d, depth)
		}
		depth = d
	}
	return depth + 1
}
