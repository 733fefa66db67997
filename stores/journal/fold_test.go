package journal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// What lies beside a scope that is folded is folded with it if it has waited
// long too, and no scope is folded much more often for it.
func TestFoldBeside(t *testing.T) {
	run := func(alone bool) (puts, pairs int) {
		b := newBackend()
		b.alone = alone
		s := mustOpen(t, b, 1<<20)
		order := rand.New(rand.NewPCG(1, 2)).Perm(1000)
		for lap := range 20 {
			for i := 0; i < len(order); i += 8 {
				var scopes []attend.Scope
				for _, n := range order[i : i+8] {
					scopes = append(scopes, attend.Scope(fmt.Sprintf("s-%04d", n)))
				}
				b.put = nil
				add(t, s, 200, scopes...)
				if lap < 8 {
					continue // until folding is even
				}
				puts += len(b.put)
				for k := range b.put[min(1, len(b.put)):] {
					var was, is int
					fmt.Sscanf(string(b.put[k]), "s-%d", &was)
					fmt.Sscanf(string(b.put[k+1]), "s-%d", &is)
					if is == was+1 {
						pairs++
					}
				}
			}
		}
		return puts, pairs
	}
	puts, pairs := run(false)
	alonePuts, alonePairs := run(true)
	if alonePuts == 0 || puts > 2*alonePuts {
		t.Errorf("scopes are folded %d times with what lies beside them, %d times alone, want twice as often at most", puts, alonePuts)
	}
	if pairs < puts/3 || pairs < 4*alonePairs {
		t.Errorf("%d of %d are folded with the one before them, and %d of %d without being asked to", pairs, puts, alonePairs, alonePuts)
	}
}

// However many records one scope was the last to need, they are dropped in small
// numbers.
func TestDropBytes(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 4<<20)
	version, inputs := uint64(0), 0
	for range 3700 {
		out, err := s.Commit(t.Context(), []attend.Write{{Scope: "hot", Expect: version, Inputs: [][]byte{make([]byte, 1000)}}})
		if err != nil || out[0].Conflict() {
			t.Fatal(out, err)
		}
		version, inputs = out[0].Version, inputs+1
	}
	for i := range 200 {
		was := b.drops
		add(t, s, 1000, attend.Scope(fmt.Sprint("later-", i)))
		if n := b.drops - was; n > 300 {
			t.Fatalf("commit %d drops %d records of 1 kB, want at most 300", i, n)
		}
	}
	if _, _, cost := journal.Overlay(s.Journal); b.drops < 200 || cost > 4<<20+1<<18 {
		t.Errorf("%d records are dropped, %d bytes wait, want the budget of %d", b.drops, cost, 4<<20)
	}
	if got := tailOf(t, mustOpen(t, b, 4<<20), "hot"); got != inputs {
		t.Errorf("the scope has %d inputs after a restart, want %d", got, inputs)
	}
}

// Records are dropped a piece at a time, and after each piece everybody sees the
// same: who wrote, another process that had read all of them, one that looks for
// the first time since, and one that begins with those that are left. Some of
// these are of scopes that are folded, ended and begun again since.
func TestDropPieces(t *testing.T) {
	const budget = 4 << 20
	b := newBackend()
	s, other, seldom := mustOpen(t, b, budget), mustOpen(t, b, budget), mustOpen(t, b, budget)
	want := make(map[attend.Scope]attend.Record)
	commit := func(n int, size int) {
		t.Helper()
		var writes []attend.Write
		for _, w := range []attend.Write{
			{Scope: "hot", Inputs: [][]byte{bytes.Repeat([]byte{byte(n)}, size)}},
			{Scope: attend.Scope(fmt.Sprint("life-", n%5)), Inputs: [][]byte{{byte(n)}}, Forget: n%3 == 2},
			{Scope: attend.Scope(fmt.Sprint("snap-", n%7)), Snapshot: []byte{byte(n)}},
		} {
			is := want[w.Scope]
			w.Expect = is.Version
			switch {
			case w.Forget && is.Version == 0:
				continue
			case w.Forget:
				w.Inputs, is = nil, attend.Record{}
			case w.Snapshot != nil:
				is.Snapshot, is.Tail = w.Snapshot, nil
			}
			is.Tail = append(is.Tail, w.Inputs...)
			want[w.Scope] = is
			writes = append(writes, w)
		}
		out, err := s.Commit(t.Context(), writes)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range out {
			if o.Conflict() {
				t.Fatalf("commit %d: %s is a conflict", n, writes[i].Scope)
			}
			if is := want[writes[i].Scope]; !writes[i].Forget {
				is.Version = o.Version
				want[writes[i].Scope] = is
			}
		}
	}
	check := func(who string, s *store, n int) {
		t.Helper()
		for scope, is := range want {
			rec, err := s.Load(t.Context(), scope)
			if err != nil || rec.Version != is.Version || !bytes.Equal(rec.Snapshot, is.Snapshot) || !bytes.Equal(bytes.Join(rec.Tail, nil), bytes.Join(is.Tail, nil)) {
				t.Fatalf("commit %d: %s sees %s at version %d with %d inputs (%v), want version %d with %d",
					n, who, scope, rec.Version, len(rec.Tail), err, is.Version, len(is.Tail))
			}
		}
	}
	n := 0
	for ; n < 150; n++ {
		commit(n, 20_000)
	}
	check("another process", other, n)
	check("one that looks seldom", seldom, n)
	s = mustOpen(t, b, 500_000) // far too much waits for that
	pieces, was := 0, b.drops
	for ; n < 250; n++ {
		commit(n, 1000)
		if b.drops > was && b.states["hot"].Seq > b.oldest {
			pieces++ // and there are more to drop
		}
		was = b.drops
		check("who wrote", s, n)
		check("another process", other, n)
		check("one that begins", mustOpen(t, b, budget), n)
	}
	if pieces < 5 {
		t.Errorf("the records are dropped in %d pieces, want some", pieces)
	}
	check("one that looks seldom", seldom, n)
}
