package bolt_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// load makes groups of scope-writes as an engine does: an input of 200 bytes
// and a new due time for each, a row of 400 bytes for one of 20, and a snapshot
// of 1.6 KB in place of the input after a tail of 8.
type load struct {
	r        *rand.Rand
	names    []attend.Scope
	versions []uint64
	tails    []int
	at       int64
}

func newLoad(scopes int) *load {
	l := &load{r: rand.New(rand.NewPCG(1, 2)), versions: make([]uint64, scopes), tails: make([]int, scopes)}
	for i := range scopes {
		l.names = append(l.names, attend.Scope(fmt.Sprintf("tenant-%02d/scope-%05d", i%50, i)))
		l.tails[i] = l.r.IntN(8)
	}
	return l
}

var (
	input    = []byte(strings.Repeat("i", 200))
	snapshot = []byte(strings.Repeat("s", 1600))
	body     = []byte(strings.Repeat("d", 400))
)

// group picks n scopes, each once.
func (l *load) group(n int) (picked []int, writes []attend.Write) {
	seen := make(map[int]bool, n)
	for len(picked) < n {
		i := l.r.IntN(len(l.names))
		if seen[i] {
			continue
		}
		seen[i] = true
		picked = append(picked, i)
		l.at++
		w := attend.Write{Scope: l.names[i], Expect: l.versions[i], Due: time.UnixMilli(1_767_268_800_000 + l.at)}
		if l.tails[i]++; l.tails[i] > 8 {
			l.tails[i], w.Snapshot = 0, snapshot
		} else {
			w.Inputs = [][]byte{input}
		}
		if l.r.IntN(20) == 0 {
			w.Rows = []attend.Row{{Scope: w.Scope, ID: attend.DecisionID(fmt.Sprint(l.at)), Type: attend.RowDecision, At: w.Due, Body: body}}
		}
		writes = append(writes, w)
	}
	return picked, writes
}

// commit commits a group, and returns how long the call took.
func (l *load) commit(b *testing.B, s attend.ScopeStore, n int) (time.Duration, []attend.Write) {
	picked, writes := l.group(n)
	began := time.Now()
	out, err := s.Commit(b.Context(), writes)
	took := time.Since(began)
	if err != nil {
		b.Fatal(err)
	}
	for k, o := range out {
		if o.Conflict() {
			b.Fatal("a conflict")
		}
		l.versions[picked[k]] = o.Version
	}
	return took, writes
}

// A bound is the least that a durable store on one disk can do: a record with a
// checksum for each group, written to a file that has its length already, and
// synced.
type bound struct {
	f   *os.File
	at  int64
	buf []byte
}

const boundSize = 64 << 20

func newBound(b *testing.B) *bound {
	f, err := os.Create(filepath.Join(b.TempDir(), "bound"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	for range boundSize >> 20 {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &bound{f: f}
}

func (d *bound) commit(b *testing.B, writes []attend.Write) time.Duration {
	began := time.Now()
	d.buf = append(d.buf[:0], make([]byte, 8)...)
	add := func(p string) { d.buf = append(binary.AppendUvarint(d.buf, uint64(len(p))), p...) }
	for _, w := range writes {
		add(string(w.Scope))
		d.buf = binary.AppendUvarint(d.buf, w.Expect)
		add(string(w.Snapshot))
		for _, in := range w.Inputs {
			add(string(in))
		}
		for _, r := range w.Rows {
			add(string(r.ID))
			add(string(r.Body))
		}
	}
	binary.BigEndian.PutUint32(d.buf, uint32(len(d.buf)))
	binary.BigEndian.PutUint32(d.buf[4:], crc32.Checksum(d.buf[8:], crc32.MakeTable(crc32.Castagnoli)))
	if d.at+int64(len(d.buf)) > boundSize {
		d.at = 0
	}
	if _, err := d.f.WriteAt(d.buf, d.at); err != nil {
		b.Fatal(err)
	}
	d.at += int64(len(d.buf))
	if err := syscall.Fdatasync(int(d.f.Fd())); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkCommit has a group and the bound's record of it in turns. of-bound
// is the store's rate in parts of the bound's.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 16, 256, 1024} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, newFile(b), bolt.Config{})
			d, l := newBound(b), newLoad(20_000)
			l.commit(b, s, 1000)
			var store, least time.Duration
			for b.Loop() {
				took, writes := l.commit(b, s, n)
				store += took
				least += d.commit(b, writes)
			}
			b.ReportMetric(float64(n*b.N)/store.Seconds(), "writes/s")
			b.ReportMetric(float64(n*b.N)/least.Seconds(), "bound/s")
			b.ReportMetric(least.Seconds()/store.Seconds(), "of-bound")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// filled is a store of so many scopes that are due, all of them folded but a
// few.
func filled(b *testing.B, scopes int) (*bolt.Store, *load, string) {
	b.Helper()
	file := newFile(b)
	s := open(b, file, bolt.Config{Budget: 1 << 20})
	l := newLoad(scopes)
	for at := 0; at < scopes; {
		var writes []attend.Write
		for ; len(writes) < 2000 && at < scopes; at++ {
			writes = append(writes, attend.Write{Scope: l.names[at], Inputs: [][]byte{input}, Due: time.UnixMilli(int64(at))})
		}
		if _, err := s.Commit(b.Context(), writes); err != nil {
			b.Fatal(err)
		}
	}
	return s, l, file
}

func BenchmarkLoad(b *testing.B) {
	s, l, _ := filled(b, 20_000)
	for b.Loop() {
		if rec, err := s.Load(b.Context(), l.names[l.r.IntN(len(l.names))]); err != nil || rec.Version == 0 {
			b.Fatal(err)
		}
	}
}

// BenchmarkDue takes the first 100 of all scopes that are due.
func BenchmarkDue(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _, _ := filled(b, n)
			for b.Loop() {
				k := 0
				for _, err := range s.Due(b.Context(), time.UnixMilli(1<<40)) {
					if k++; err != nil || k == 100 {
						break
					}
				}
				if k != 100 {
					b.Fatal("too few are due")
				}
			}
		})
	}
}

// BenchmarkRead reads 100 decisions, alone or beside many verdict rows.
func BenchmarkRead(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			s := open(b, newFile(b), bolt.Config{})
			addRows(b, s, attend.RowDecision, 100, 1, at("ops"))
			addRows(b, s, attend.RowVerdict, 2000, others/2000, at("ops"))
			if err := s.Log().Trim(b.Context(), attend.Retain{}, time.Now()); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if n := len(read(b, s, decisions)); n != 100 {
					b.Fatalf("%d rows", n)
				}
			}
		})
	}
}

// BenchmarkOpen reads a journal of about 32 MiB, over 20,000 scopes.
func BenchmarkOpen(b *testing.B) {
	file := newFile(b)
	s := open(b, file, bolt.Config{})
	l := newLoad(20_000)
	for range 80 {
		l.commit(b, s, 1000)
	}
	s.Close()
	for b.Loop() {
		s, err := bolt.Open(b.Context(), file, bolt.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

func BenchmarkAppendEvents(b *testing.B) {
	for _, n := range []int{1, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l, err := bolt.OpenEventLog(b.Context(), newFile(b), bolt.Config{Retain: attend.Retain{Count: 50_000}})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			i := 0
			for b.Loop() {
				events := make([]attend.Event, n)
				for k := range events {
					i++
					events[k] = attend.Event{ID: fmt.Sprint("event-", i), Name: "build.finished", Text: string(input)}
				}
				if err := l.Append(b.Context(), "ops", events); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
