package machine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// seqPair is a queue and the plain slice that it must be like.
type seqPair struct {
	q     seq
	plain []*entry
}

func (p *seqPair) check(t *testing.T) {
	t.Helper()
	if got := slices.Collect(p.q.all()); !slices.Equal(got, p.plain) || p.q.n != len(p.plain) {
		t.Fatalf("all() has %d of n %d, want %d, or another order", len(got), p.q.n, len(p.plain))
	}
	var first *entry
	if len(p.plain) > 0 {
		first = p.plain[0]
	}
	if got := p.q.first(); got != first {
		t.Fatalf("first() = %v, want %v", got, first)
	}
	n := 0
	for range p.q.all() { // who stops early gets no more
		if n++; n == 3 {
			break
		}
	}
	if n != min(3, len(p.plain)) {
		t.Fatalf("%d entries before the break, want %d", n, min(3, len(p.plain)))
	}
}

func TestSeq(t *testing.T) {
	rounds := uint64(60)
	if testing.Short() {
		rounds = 12
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(seed, 4))
		var p seqPair
		var kept []seqPair
		for i := range 400 {
			if len(kept) > 0 && r.IntN(40) == 0 {
				p = kept[r.IntN(len(kept))] // a branch from an older value
			}
			if r.IntN(5) < 3 || len(p.plain) == 0 {
				e := &entry{order: uint64(i)}
				p = seqPair{p.q.push(e), append(slices.Clip(p.plain), e)}
			} else {
				p = seqPair{p.q.pop(), p.plain[1:]}
			}
			p.check(t)
			if r.IntN(10) == 0 {
				kept = append(kept, p)
			}
		}
		for i := range kept {
			kept[i].check(t)
		}
	}
}

// A flood through a queue of fixed length holds on to no entry that is gone.
func TestSeqFlood(t *testing.T) {
	const size, flood = 250, 100_000
	var q seq
	for range size {
		q = q.push(new(entry))
	}
	chunks := 0
	for range flood {
		q = q.push(new(entry)).pop()
		chunks = max(chunks, len(q.full))
	}
	if q.n != size || chunks > size/chunkLen+2 {
		t.Errorf("%d entries in at most %d chunks, want %d in %d", q.n, chunks, size, size/chunkLen+2)
	}
	if got := cap(q.full); got > 2*(size/chunkLen+2) {
		t.Errorf("room for %d chunks, want at most %d", got, 2*(size/chunkLen+2))
	}
}

// A push costs the same however long the queue is: it copies one chunk at most,
// and once a chunk the list of chunks.
func TestSeqPushCopies(t *testing.T) {
	var q seq
	for range 16*chunkLen + 3 {
		q = q.push(new(entry))
	}
	e := new(entry)
	if got := testing.AllocsPerRun(100, func() { q.push(e) }); got > 1 {
		t.Errorf("%v allocations for a push, want 1", got)
	}
}
