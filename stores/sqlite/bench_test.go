package sqlite_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// A load makes groups of writes as an engine does: each an input of 200 bytes
// on a scope's last version, a snapshot of 1,600 in the place of every ninth, a
// log row of 400 with every twentieth, and a due time that moves in every
// fourth (rule E46). Scopes are picked evenly, which is the worst case.
type load struct {
	scopes   []attend.Scope
	versions []uint64
	order    []int
	n        int
	writes   []attend.Write
	inputs   [][]byte
	snap     []byte
	body     []byte
}

var noon = time.UnixMilli(1_767_268_800_000)

func newLoad(scopes int) *load {
	l := &load{
		versions: make([]uint64, scopes),
		inputs:   [][]byte{random(200)}, snap: random(1600), body: random(400),
		order: rand.New(rand.NewPCG(1, 2)).Perm(scopes),
	}
	for i := range scopes {
		l.scopes = append(l.scopes, attend.Scope(fmt.Sprintf("ops/db-%06d", i)))
	}
	return l
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (l *load) group(size int) []attend.Write {
	l.writes = l.writes[:0]
	for range size {
		l.n++
		s := l.order[l.n%len(l.order)]
		w := attend.Write{Scope: l.scopes[s], Expect: l.versions[s], Inputs: l.inputs}
		if w.Expect != 0 && l.n%4 != 0 {
			w.KeepDue = true
		} else {
			w.Due = noon.Add(time.Duration(l.n) * time.Millisecond)
		}
		if l.n%9 == 0 {
			w.Inputs, w.Snapshot = nil, l.snap
		}
		if l.n%20 == 0 {
			id := attend.DecisionID(fmt.Sprintf("%040d", l.n*7919))
			w.Rows = []attend.Row{{Scope: w.Scope, ID: id, Type: attend.RowDecision, At: noon, Body: l.body}}
		}
		l.writes = append(l.writes, w)
	}
	return l.writes
}

// landed keeps the new versions.
func (l *load) landed(b testing.TB, out []attend.Outcome) {
	for i, o := range out {
		if o.Conflict() {
			b.Fatal("conflict")
		}
		l.versions[l.order[(l.n-len(out)+1+i)%len(l.order)]] = o.Version
	}
}

// A walBound is the least that a durable store can do: states in a map, and one
// checksummed record a group, written over a file that is there already, and
// synced.
type walBound struct {
	f      *os.File
	at     int64
	scopes map[attend.Scope]*boundScope
	buf    []byte
}

type boundScope struct {
	version uint64
	due     time.Time
	kept    []byte
}

const walBytes = 64 << 20

func newBound(b testing.TB, dir string) *walBound {
	f, err := os.Create(filepath.Join(dir, "bound"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	for range walBytes >> 20 {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &walBound{f: f, scopes: make(map[attend.Scope]*boundScope)}
}

func (w *walBound) Commit(_ context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out := make([]attend.Outcome, len(writes))
	buf := append(w.buf[:0], make([]byte, 8)...)
	add := func(b []byte) { buf = append(binary.AppendUvarint(buf, uint64(len(b))), b...) }
	for i, wr := range writes {
		s := w.scopes[wr.Scope]
		if s == nil {
			s = new(boundScope)
			w.scopes[wr.Scope] = s
		}
		if s.version != wr.Expect {
			continue
		}
		s.version++
		out[i].Version = s.version
		if !wr.KeepDue {
			s.due = wr.Due
		}
		if wr.Snapshot != nil {
			s.kept = append(s.kept[:0], wr.Snapshot...)
		}
		add([]byte(wr.Scope))
		buf = binary.AppendUvarint(binary.AppendUvarint(buf, wr.Expect), uint64(wr.Due.UnixMilli()))
		for _, in := range wr.Inputs {
			s.kept = append(s.kept, in...)
			add(in)
		}
		add(wr.Snapshot)
		for _, r := range wr.Rows {
			add([]byte(r.ID))
			add(r.Body)
		}
	}
	binary.LittleEndian.PutUint32(buf, uint32(len(buf)))
	binary.LittleEndian.PutUint32(buf[4:], crc32.Checksum(buf[8:], crc32.MakeTable(crc32.Castagnoli)))
	w.buf = buf
	if w.at+int64(len(buf)) > walBytes {
		w.at = 0
	}
	if _, err := w.f.WriteAt(buf, w.at); err != nil {
		return nil, err
	}
	w.at += int64(len(buf))
	return out, datasync(w.f)
}

type committer interface {
	Commit(context.Context, []attend.Write) ([]attend.Outcome, error)
}

// BenchmarkCommit writes groups to the bound, to a store and to plain row
// tables, in turns. Its figures are scope-writes a second and their ratio to the
// bound's, medians over the rounds. A round is one iteration: take
// -benchtime=20x or so.
func BenchmarkCommit(b *testing.B) {
	const scopes, warm = 20_000, 700_000
	dir := b.TempDir()
	ways := []*way{
		{name: "bound", c: newBound(b, dir), load: newLoad(scopes)},
		{name: "sqlite", c: openStore(b, filepath.Join(dir, "attend.db"), sqlite.Config{Retain: attend.Retain{Count: 100_000}}), load: newLoad(scopes)},
		{name: "rows", c: newRowTables(b, filepath.Join(dir, "rows.db")), load: newLoad(scopes)},
	}
	for _, w := range ways {
		n := warm // until states are folded as they are in the long run
		if w.name == "rows" {
			n = 9 * scopes
		}
		for w.load.n < n {
			w.commit(b, 1000)
		}
	}
	for _, group := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprintf("group=%d", group), func(b *testing.B) {
			for _, w := range ways {
				w.rates, w.times = nil, nil
			}
			for b.Loop() {
				for _, w := range ways {
					w.round(b, group)
				}
			}
			bound := median(ways[0].rates)
			for _, w := range ways {
				b.ReportMetric(median(w.rates), w.name+"/s")
				slices.Sort(w.times)
				b.ReportMetric(ms(w.times[len(w.times)/2]), w.name+"-p50-ms")
				b.ReportMetric(ms(w.times[len(w.times)*99/100]), w.name+"-p99-ms")
				if w != ways[0] {
					b.ReportMetric(median(w.rates)/bound, w.name+"/bound")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// A way is something to commit to, with what it showed.
type way struct {
	name  string
	c     committer
	load  *load
	rates []float64 // of each round
	times []time.Duration
}

func (w *way) commit(b testing.TB, group int) time.Duration {
	writes := w.load.group(group)
	start := time.Now()
	out, err := w.c.Commit(b.Context(), writes)
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	w.load.landed(b, out)
	return took
}

// round commits for a tenth of a second.
func (w *way) round(b testing.TB, group int) {
	n, took := 0, time.Duration(0)
	for took < 100*time.Millisecond {
		t := w.commit(b, group)
		w.times = append(w.times, t)
		took += t
		n += group
	}
	w.rates = append(w.rates, float64(n)/took.Seconds())
}
