package ingest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
	"github.com/attend-go/attend/stores/bolt"
)

// The benchmark of ingest measures four things in turns, within one run, and
// reports their ratios: absolute numbers move with the machine.
//
//	go test -run - -bench Ingest -benchtime 5x -timeout 0 . -ingest-time 2s
//
// The short form, without a flag, takes some seconds.

var ingestTime = flag.Duration("ingest-time", 150*time.Millisecond, "how long each measurement of BenchmarkIngest takes")

const benchScopes = 1000

// A load makes bodies of new events, for all connections.
type load struct {
	id    atomic.Uint64
	lines int
}

// body makes a body in b, of lines of some 200 bytes for scopes in turns.
func (l *load) body(b []byte) []byte {
	b = b[:0]
	from := l.id.Add(uint64(l.lines)) - uint64(l.lines)
	for i := range uint64(l.lines) {
		b = append(b, `{"scope":"ops/db-`...)
		b = strconv.AppendUint(b, (from+i)%benchScopes, 10)
		b = append(b, `","id":"event-`...)
		b = strconv.AppendUint(b, from+i, 10)
		b = append(b, `","at":1767225600000,"name":"build.log","data":{"repository":"ops/db","step":"compile","exit":0},"text":"compile: go: downloading golang.org/x/text v0.30.0"}`+"\n"...)
	}
	return b
}

// groups makes what a body comes to at the engine.
func (l *load) groups() []engine.ScopePush {
	from := l.id.Add(uint64(l.lines)) - uint64(l.lines)
	list := make([]engine.ScopePush, min(l.lines, benchScopes))
	for i := range list {
		list[i] = engine.ScopePush{Scope: attend.Scope("ops/db-" + strconv.FormatUint((from+uint64(i))%benchScopes, 10)), Lenient: true}
	}
	for i := range uint64(l.lines) {
		p := &list[i%uint64(len(list))]
		p.Events = append(p.Events, attend.Event{
			ID: "event-" + strconv.FormatUint(from+i, 10), At: time.UnixMilli(1767225600000), Name: "build.log",
			Data: []byte(`{"repository":"ops/db","step":"compile","exit":0}`), Text: "compile: go: downloading golang.org/x/text v0.30.0",
		})
	}
	return list
}

// rate runs f from many goroutines for a while and returns lines a second.
func rate(connections, lines int, f func(worker int)) float64 {
	var done atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range connections {
		wg.Go(func() {
			for time.Since(begun) < *ingestTime {
				f(i)
				done.Add(int64(lines))
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds()
}

// A bare committer hands groups to a store as the engine would, and does nothing
// else. It has scopes of its own.
type bare struct {
	store    attend.ScopeStore
	name     string
	versions map[attend.Scope]uint64
}

func (r *bare) commit(b *testing.B, list []engine.ScopePush) {
	writes := make([]attend.Write, len(list))
	for i, x := range list {
		scope := attend.Scope(r.name + string(x.Scope))
		in := machine.EncodeInput(machine.Arrive{At: x.Events[0].At, Writer: 1, Number: 1, Events: x.Events})
		writes[i] = attend.Write{Scope: scope, Expect: r.versions[scope], Inputs: [][]byte{in}}
	}
	outcomes, err := r.store.Commit(b.Context(), writes)
	if err != nil {
		b.Error(err)
		return
	}
	for i, o := range outcomes {
		if o.Conflict() {
			b.Error("a conflict, with a writer for each scope")
		}
		r.versions[writes[i].Scope] = o.Version
	}
}

// BenchmarkIngest is lines over loopback HTTP, committed, beside a handler that
// only parses the same bytes (parsed), beside a store of the same kind that is
// handed the same groups (stored), and, between the two, beside the engine with
// these groups and no HTTP (pushed). Client and server share the processors.
func BenchmarkIngest(b *testing.B) {
	for _, store := range []string{"memory", "bolt"} {
		for _, connections := range []int{1, 16, 256} {
			for _, lines := range []int{1, 100, 10_000} {
				b.Run(fmt.Sprintf("%s/connections=%d/lines=%d", store, connections, lines), func(b *testing.B) {
					benchIngest(b, store, connections, lines)
				})
			}
		}
	}
}

func benchStore(b *testing.B, name string) attend.ScopeStore {
	if name == "memory" {
		return memory.New()
	}
	s, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "attend.db"), bolt.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func benchIngest(b *testing.B, store string, connections, lines int) {
	if connections*lines > 1<<20 && *ingestTime < time.Second {
		b.Skip("one body for each connection takes a minute: give -ingest-time")
	}
	cfg := engineConfig()
	cfg.Store, cfg.ResidentBytes = benchStore(b, store), 1<<30
	e, err := engine.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	in := newIngest(b, ingest.Config{Engine: e})
	l := &load{lines: lines}
	warm := &load{lines: benchScopes}
	e.PushAll(b.Context(), warm.groups()) // every scope exists
	l.id.Store(1 << 20)

	url := func(h http.Handler) string {
		s := httptest.NewServer(as(access.Anyone(), h))
		b.Cleanup(s.Close)
		return s.URL
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	b.Cleanup(client.CloseIdleConnections)
	bodies := make([][]byte, connections)
	over := func(url string) float64 {
		return rate(connections, lines, func(i int) {
			bodies[i] = l.body(bodies[i])
			post200(b, client, url, bodies[i], lines)
		})
	}
	bares, bottom := make([]*bare, connections), benchStore(b, store)
	for i := range bares {
		bares[i] = &bare{bottom, fmt.Sprint(i, "-"), make(map[attend.Scope]uint64)}
	}
	whole, parser := url(in.Bodies()), url(in.Parser())
	var took, parse, push, bottoms []float64
	for b.Loop() {
		took = append(took, over(whole))
		parse = append(parse, over(parser))
		push = append(push, rate(connections, lines, func(int) {
			list := l.groups()
			e.PushAll(context.Background(), list)
			for i := range list {
				if list[i].Err != nil {
					b.Error(list[i].Err)
				}
			}
		}))
		bottoms = append(bottoms, rate(connections, lines, func(i int) { bares[i].commit(b, l.groups()) }))
	}
	t, p, s := median(took), median(parse), median(bottoms)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(t, "lines/s")
	b.ReportMetric(p, "parsed/s")
	b.ReportMetric(median(push), "pushed/s")
	b.ReportMetric(s, "stored/s")
	b.ReportMetric(t/min(p, s), "of-lower")
	b.ReportMetric(t/min(p, median(push)), "of-engine")
}

func post200(b *testing.B, client *http.Client, url string, body []byte, lines int) {
	res, err := client.Post(url, "application/x-ndjson", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if want := fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[]}`+"\n", lines); err != nil || string(text) != want {
		b.Errorf("%d %.300s, %v", res.StatusCode, text, err)
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
