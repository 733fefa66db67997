package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/ingest"
)

// A watched engine remembers the groups that it was given.
type watched struct {
	ingest.Engine
	mu     sync.Mutex
	lists  [][]engine.ScopePush
	before func(list []engine.ScopePush) // may be nil
	inside int
	most   int
}

func (w *watched) PushAll(ctx context.Context, list []engine.ScopePush) {
	w.mu.Lock()
	w.inside++
	w.most = max(w.most, w.inside)
	kept := slices.Clone(list)
	for i := range kept {
		kept[i].Events = slices.Clone(kept[i].Events)
	}
	w.lists = append(w.lists, kept)
	w.mu.Unlock()
	if w.before != nil {
		w.before(list)
	}
	w.Engine.PushAll(ctx, list)
	w.mu.Lock()
	for i := range kept {
		kept[i].Err, kept[i].Left = list[i].Err, list[i].Left
	}
	w.inside--
	w.mu.Unlock()
}

// Consecutive lines of a scope are one lenient push, whatever comes between
// them for other scopes; flush and end take their place.
func TestGroups(t *testing.T) {
	w := &watched{Engine: newEngine(t, engineConfig())}
	in := newIngest(t, ingest.Config{Engine: w})
	a := post(t, in.Bodies(), strings.NewReader(
		line("a", 1)+line("b", 1)+line("a", 2)+`{"scope":"a","flush":true}`+"\n"+line("a", 3)+line("b", 2)+`{"scope":"b","end":true}`+"\n"+`{"scope":"c","flush":true}`+"\n"+line("a", 4)))
	if a.Accepted != 9 || len(w.lists) != 1 {
		t.Fatalf("%v in %d groups, want 9 lines in one", a, len(w.lists))
	}
	var got []string
	for _, p := range w.lists[0] {
		s := string(p.Scope)
		for _, v := range p.Events {
			s += v.ID
		}
		if !p.Lenient {
			t.Errorf("push to %q is not lenient", p.Scope)
		}
		got = append(got, fmt.Sprint(s, p.Flush, p.End))
	}
	want := []string{"a12false false", "b12false false", "atrue false", "a34false false", "bfalse true", "ctrue false"}
	if !slices.Equal(got, want) {
		t.Errorf("pushes %q, want %q", got, want)
	}
}

// V9, E31: whatever scopes do among each other, and however the body comes,
// each scope gets its lines in their order, in groups within the limits, one
// at a time.
func TestV9OrderInsideScopes(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			cfg := engineConfig()
			cfg.MaxOutbox = 1 << 20
			e := newEngine(t, cfg)
			w := &watched{Engine: e}
			c := ingest.Config{Engine: w}
			if r.IntN(2) == 0 {
				c.Memory = int64(r.IntN(1 << 20))
			}
			in := newIngest(t, c)
			scopes := 1 + r.IntN(1<<r.IntN(9))
			sent := make(map[string][]string)
			var body bytes.Buffer
			bad := 0
			for i := range 200 + r.IntN(8_000) {
				scope := fmt.Sprint("s-", r.IntN(scopes))
				switch r.IntN(20) {
				case 0:
					body.WriteString("{\n")
					bad++
				case 1:
					body.WriteString(line(scope, "")) // the engine leaves it out
					bad++
				case 2:
					body.WriteString(strings.Replace(line(scope, i), "a line", strings.Repeat("x", r.IntN(20_000)), 1))
					sent[scope] = append(sent[scope], fmt.Sprint(i))
				default:
					body.WriteString(line(scope, i))
					sent[scope] = append(sent[scope], fmt.Sprint(i))
				}
			}
			var reader io.Reader = &body
			switch r.IntN(3) {
			case 0:
				reader = iotest.HalfReader(reader)
			case 1:
				reader = iotest.DataErrReader(reader)
			}
			n := 0
			a := post(t, in.Bodies(), reader)
			for scope, ids := range sent {
				n += len(ids)
				if got := held(t, e, attend.Scope(scope)); !slices.Equal(got, ids) {
					t.Fatalf("%s holds %d events, want its %d in order", scope, len(got), len(ids))
				}
			}
			if a.Accepted != n || len(a.Rejected)+a.RejectedMore != bad {
				t.Errorf("%d accepted, %d rejected, want %d and %d", a.Accepted, len(a.Rejected)+a.RejectedMore, n, bad)
			}
			if !slices.IsSortedFunc(a.Rejected, func(x, y struct {
				Line         int
				Scope, Error string
				Retry        bool
			}) int {
				return x.Line - y.Line
			}) {
				t.Error("rejections are not in the order of lines")
			}
			if w.most > 1 {
				t.Errorf("%d groups of one body at a time, want one", w.most)
			}
			for _, list := range w.lists {
				lines := 0
				for _, p := range list {
					if lines += max(1, len(p.Events)); p.Err != nil {
						t.Error(p.Err)
					}
				}
				if lines > engine.MaxPushEvents {
					t.Errorf("a group of %d lines", lines)
				}
			}
		})
	}
}

// While a group commits the next is read, and no further.
func TestReadsAhead(t *testing.T) {
	release := make(chan struct{})
	w := &watched{Engine: newEngine(t, engineConfig()), before: func([]engine.ScopePush) { <-release }}
	in := newIngest(t, ingest.Config{Engine: w, MaxBody: 1 << 30})
	var read counter
	endless := repeat(strings.Replace(line("a", 1), "a line", strings.Repeat("x", 4000), 1), 16_000)
	done := make(chan answer)
	go func() { done <- post(t, in.Bodies(), io.TeeReader(endless, &read)) }()
	var stood int64
	for range 2000 { // until it stands still
		runtime.Gosched()
		n := read.load()
		if n > 8<<20 && n == stood {
			break
		}
		stood = n
		sleep()
	}
	if n := read.load(); n < 8<<20 || n > 20<<20 {
		t.Errorf("%d bytes were read while the first group committed, want one group more, some 16 MiB", n)
	}
	close(release)
	if a := <-done; a.Accepted != 1 || a.Duplicates != 15_999 {
		t.Errorf("%v, want all lines", a)
	}
}

// A group whose events would grow when they are made valid is still one that the
// engine takes: bad bytes cost nobody else's lines.
func TestBrokenBytesCostNoNeighbour(t *testing.T) {
	in := newIngest(t, ingest.Config{})
	var body bytes.Buffer
	for i := range 60 { // of 340 kB each, and of 1,020 kB when U+FFFD stands for each byte
		fmt.Fprintf(&body, `{"scope":"a","id":"%d","name":"log","text":"%s"}`+"\n", i, strings.Repeat("\xff", 340_000))
	}
	body.WriteString(line("a", "good"))
	if a := post(t, in.Bodies(), &body); a.Accepted != 61 {
		t.Errorf("%v, want 61 accepted", a)
	}
}

// The list of rejections has an end, the counts don't.
func TestRejectionsAreBounded(t *testing.T) {
	var rejected atomic.Int64
	in := newIngest(t, ingest.Config{MaxRejected: 3, Rejected: func(n int) { rejected.Add(int64(n)) }})
	a := post(t, in.Bodies(), strings.NewReader(line("a", 1)+line("a", 1)+`{"scope":"a","flush":true}`+"\n"+strings.Repeat("{\n", 5)+line("b", "")))
	if a.Accepted != 2 || a.Duplicates != 1 || len(a.Rejected) != 3 || a.RejectedMore != 3 {
		t.Errorf("%v, want three of six rejections", a)
	}
	if n := rejected.Load(); n != 6 {
		t.Errorf("%d rejections are told, want 6", n)
	}
	if a := post(t, in.Bodies(), strings.NewReader(strings.Repeat("{\n", 5))); a.status != 400 || len(a.Rejected) != 3 || a.RejectedMore != 2 {
		t.Errorf("%v, want a 400 with three of five rejections", a)
	}
}

// 300 MiB without a newline, behind no limit of the body: what it takes is that
// of a line.
func TestMemoryOfAnEndlessLine(t *testing.T) {
	for _, c := range []struct {
		name, media, head, text, tail string
		size                          int
	}{
		{"line", "application/x-ndjson", line("a", 1), "a", "\n" + line("a", 2), 300 << 20},
		{"item", "application/json", "[" + line("a", 1) + `,"`, "a", `",` + line("a", 2) + "]", 64 << 20},
		{"escapes", "application/json", "[" + line("a", 1) + `,"`, `\"`, `",` + line("a", 2) + "]", 32 << 20},
		{"list", "application/json", "[" + line("a", 1) + `,[`, "0,", `0],` + line("a", 2) + "]", 32 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newIngest(t, ingest.Config{MaxBody: 1 << 40})
			body := io.MultiReader(strings.NewReader(c.head), repeat(c.text, c.size), strings.NewReader(c.tail))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := post(t, in.Bodies(), body, "Content-Type", c.media)
			runtime.ReadMemStats(&after)
			if a.Accepted != 2 || len(a.Rejected) != 1 || a.Rejected[0].Line != 2 {
				t.Errorf("%v, want both neighbours", a)
			}
			// All that was ever allocated, so that no moment between can have held more.
			if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
				t.Errorf("%d bytes were allocated, want less than 8 MiB", n)
			} else {
				t.Logf("%d bytes were allocated", n)
			}
		})
	}
}

// Whoever has no rights is told so before anything is read, and a wrong method.
func TestRights(t *testing.T) {
	in := newIngest(t, ingest.Config{})
	for _, h := range []http.Handler{in.Bodies(), in.Stream()} {
		for _, c := range []struct {
			who    *access.Principal
			method string
			status int
		}{
			{&access.Principal{Scopes: []attend.Prefix{""}, Read: true}, "POST", 403},
			{nil, "POST", 403},
			{access.Anyone(), "GET", 405},
		} {
			r := httptest.NewRequest(c.method, "/", iotest.ErrReader(io.ErrUnexpectedEOF))
			r.Header.Set("Content-Type", "application/x-ndjson")
			w := httptest.NewRecorder()
			as(c.who, h).ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s of %+v = %d, want %d", c.method, c.who, w.Code, c.status)
			}
		}
	}
}

// A kind function that fails is not the store's failure, and costs its event alone.
func TestKindFails(t *testing.T) {
	in := newIngest(t, ingest.Config{})
	bad := `{"scope":"a","id":"2","name":"panic"}` + "\n"
	if a := post(t, in.Bodies(), strings.NewReader(line("a", 1)+bad+line("a", 3))); a.Accepted != 2 || len(a.Rejected) != 1 ||
		a.Rejected[0].Line != 2 || !a.Rejected[0].Retry || a.Rejected[0].Error != "the event's kind could not be told" {
		t.Errorf("%v, want line 2 rejected", a)
	}
	if a := post(t, in.Bodies(), strings.NewReader(bad)); a.status != 503 {
		t.Errorf("%v, want 503", a)
	}
}

// All requests together hold no more than the memory that they may; without any
// left groups are small, and nobody waits for anybody.
func TestBudget(t *testing.T) {
	release := make(chan struct{})
	e := newEngine(t, engineConfig())
	var mu sync.Mutex
	bytes, most, held := 0, 0, true
	size := func(list []engine.ScopePush) (n int) {
		for _, p := range list {
			for _, v := range p.Events {
				n += v.Size()
			}
		}
		return n
	}
	w := &watched{Engine: e}
	w.before = func(list []engine.ScopePush) {
		mu.Lock()
		bytes += size(list)
		most = max(most, size(list))
		mu.Unlock()
		<-release
	}
	const memory, requests = 1 << 20, 8
	in := newIngest(t, ingest.Config{Engine: w, Memory: memory})
	text := strings.Replace(line("a", 1), "a line", strings.Repeat("x", 4000), 1)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if a := post(t, in.Bodies(), repeat(text, 4000)); a.Accepted+a.Duplicates != 4000 {
				t.Errorf("%v, want all lines", a)
			}
		})
	}
	for stood := -1; held; { // until nothing moves: each request has a group under way
		sleep()
		sleep()
		mu.Lock()
		w.mu.Lock()
		held = w.inside < requests || bytes != stood
		stood = bytes
		w.mu.Unlock()
		mu.Unlock()
	}
	mu.Lock()
	if bytes > memory+requests*(64<<10) {
		t.Errorf("%d bytes are under way, want no more than the memory and 64 KiB for each of %d requests", bytes, requests)
	}
	mu.Unlock()
	close(release)
	all.Wait()
	most = 0
	if a := post(t, in.Bodies(), repeat(text, 4000)); a.Duplicates != 4000 {
		t.Errorf("%v, want all lines", a)
	}
	if most < 200<<10 {
		t.Errorf("the largest group afterwards holds %d bytes: the memory was not given back", most)
	}
}
