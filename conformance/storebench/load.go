package storebench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
)

const (
	scopes    = 20_000
	tailLen   = 8
	inputSize = 200
	snapSize  = 1600
	rowSize   = 400
)

// epoch is when the writes of a load begin to be due.
var epoch = time.UnixMilli(1_767_225_600_000)

func scopeName(i int) attend.Scope {
	return attend.Scope("repo/service-" + strconv.Itoa(i%97) + "/" + strconv.Itoa(i))
}

// A writer makes scope-writes, one scope after the other in an order of its
// own, and knows the versions that it has brought about.
type writer struct {
	names    []attend.Scope
	order    []int
	next     int
	versions []uint64
	tails    []int
	made     int
	silent   bool // it writes no rows
	rng      *rand.Rand
	input    []byte
	snap     []byte
	row      []byte
}

// newWriter writes n scopes from the from-th on.
func newWriter(from, n int, seed uint64) *writer {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &writer{
		order: r.Perm(n), versions: make([]uint64, n), tails: make([]int, n), rng: r,
		input: random(r, inputSize), snap: random(r, snapSize), row: random(r, rowSize),
	}
	for i := range n {
		w.names = append(w.names, scopeName(from+i))
		w.tails[i] = r.IntN(tailLen + 1) // or all scopes would come to their snapshots in the same lap
	}
	return w
}

// random is bytes that do not compress.
func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// group returns the writes of n scopes, and which they are.
func (w *writer) group(n int) ([]attend.Write, []int) {
	writes, which := make([]attend.Write, n), make([]int, n)
	for k := range n {
		i := w.order[w.next]
		w.next = (w.next + 1) % len(w.order)
		w.made++
		x := attend.Write{Scope: w.names[i], Expect: w.versions[i], KeepDue: w.versions[i] != 0 && w.made%4 != 0}
		if !x.KeepDue {
			x.Due = epoch.Add(time.Duration(w.rng.IntN(3_600_000)) * time.Millisecond)
		}
		if w.tails[i] == tailLen {
			x.Snapshot = bytes.Clone(w.snap)
		} else {
			x.Inputs = [][]byte{bytes.Clone(w.input)}
		}
		if w.made%20 == 0 && !w.silent {
			x.Rows = []attend.Row{{
				Scope: x.Scope, ID: attend.DecisionID(fmt.Sprintf("%016x%024x", w.rng.Uint64(), w.made)),
				Type: attend.RowDecision, At: epoch, Body: bytes.Clone(w.row),
			}}
		}
		writes[k], which[k] = x, i
	}
	return writes, which
}

// landed notes what a commit of a group brought about.
func (w *writer) landed(writes []attend.Write, which []int, out []attend.Outcome) error {
	for k, i := range which {
		if out[k].Conflict() {
			return fmt.Errorf("a write of %q conflicts, though nobody else writes", writes[k].Scope)
		}
		w.versions[i] = out[k].Version
		if w.tails[i]++; writes[k].Snapshot != nil {
			w.tails[i] = 0
		}
	}
	return nil
}
