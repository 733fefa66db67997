package mcpevents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whatever settles first, the watermark stands before the first that has not, and
// no body carries a position behind that.
func TestWatermark(t *testing.T) {
	for round := range 200 {
		r := rand.New(rand.NewPCG(uint64(round), 1))
		w := newWindow(&webhookRecord{Position: "c0"})
		pos := func(c Cursor) int {
			var n int
			if _, err := fmt.Sscanf(string(c), "c%d", &n); err != nil {
				t.Fatalf("cursor %q", c)
			}
			return n
		}
		unsettled := map[int]*parcel{}
		next := 1
		for range 100 {
			switch {
			case r.IntN(3) == 0:
				unsettled[next] = w.add(Cursor(fmt.Sprint("c", next)), &formed{})
				next++
			case r.IntN(3) == 0: // what the arguments leave out
				w.mark(Cursor(fmt.Sprint("c", next)))
				next++
			case len(unsettled) > 0:
				keys := make([]int, 0, len(unsettled))
				for k := range unsettled {
					keys = append(keys, k)
				}
				slices.Sort(keys)
				k := keys[r.IntN(len(keys))]
				unsettled[k].done = true
				delete(unsettled, k)
			}
			w.advance(func(*parcel) {})
			first := next
			for k := range unsettled {
				first = min(first, k)
			}
			if got := pos(w.position); got >= first {
				t.Fatalf("round %d: the watermark is c%d, and c%d is not settled", round, got, first)
			}
			if len(unsettled) == 0 && pos(w.position) != next-1 {
				t.Fatalf("round %d: all is settled up to c%d, the watermark is %s", round, next-1, w.position)
			}
			for k, d := range unsettled {
				if got := pos(w.safe(d)); got > first || got == k && k != first {
					t.Fatalf("round %d: c%d carries c%d, and c%d is not settled", round, k, got, first)
				}
			}
			if n := len(w.list); n > 2*len(unsettled)+2*100 {
				t.Fatalf("round %d: %d places for %d events", round, n, len(unsettled))
			}
		}
		// What a record keeps of it is the same to another process.
		rec := &webhookRecord{Position: w.position}
		rec.Settled, rec.Tries = w.state()
		again := newWindow(rec)
		for k := pos(w.position) + 1; k < next; k++ {
			c := Cursor(fmt.Sprint("c", k))
			if i := slices.IndexFunc(w.list, func(d *parcel) bool { return d.event != nil && d.cursor == c }); i >= 0 {
				if d := again.add(c, &formed{}); d.done != w.list[i].done {
					t.Fatalf("round %d: after a restart c%d is settled: %v, want %v", round, k, d.done, w.list[i].done)
				}
			}
		}
		again.advance(func(*parcel) {})
	}
}

func TestWindowIsBounded(t *testing.T) {
	w := newWindow(&webhookRecord{Position: "c0"})
	for i := range maxWindow {
		if w.room() != maxWindow-i {
			t.Fatalf("room = %d, want %d", w.room(), maxWindow-i)
		}
		w.add(Cursor(fmt.Sprint("c", i)), &formed{})
	}
	for i := range 1000 {
		w.mark(Cursor(fmt.Sprint("m", i)))
	}
	if w.room() != 0 || len(w.list) != maxWindow+1 {
		t.Errorf("room = %d with %d places, want 0 with %d", w.room(), len(w.list), maxWindow+1)
	}
}

// Time in suspension counts for no retry.
func TestResumeMovesTheRetries(t *testing.T) {
	at := time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC)
	r := &webhookRecord{
		Suspended: at.UnixMilli(), Throttled: 5, Health: health{Slot: 7},
		Tries: []storedTry{{"c1", tries{N: 2, First: at.Add(-time.Minute).UnixMilli(), Next: at.Add(time.Minute).UnixMilli()}}},
		Gap:   &owed{"msg_gap_1", tries{N: 1, First: at.Add(-2 * time.Minute).UnixMilli(), Next: 9}},
	}
	before := *r
	now := at.Add(3 * time.Hour)
	r.resume(now)
	if got, want := r.Tries[0].tries, (tries{N: 2, First: now.Add(-time.Minute).UnixMilli(), Next: now.UnixMilli()}); got != want {
		t.Errorf("the event's tries = %+v, want %+v", got, want)
	}
	if got, want := r.Gap.tries, (tries{N: 1, First: now.Add(-2 * time.Minute).UnixMilli(), Next: now.UnixMilli()}); got != want || r.Gap.ID != "msg_gap_1" {
		t.Errorf("the gap's tries = %+v, want %+v", got, want)
	}
	if r.Suspended != 0 || r.Throttled != 0 || r.Health != (health{}) {
		t.Errorf("the record is still suspended: %+v", r)
	}
	if before.Tries[0].First == r.Tries[0].First || before.Gap.First == r.Gap.First {
		t.Errorf("the record before was changed, too")
	}
	again := *r
	if r.resume(now.Add(time.Hour)); r.Tries[0] != again.Tries[0] {
		t.Errorf("a second resume moved what was not suspended")
	}
}

func TestHealthSuspends(t *testing.T) {
	start := time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC)
	count := func(h *health, n int, failed bool, from, every time.Duration) {
		for i := range n {
			h.count(start.Add(from+time.Duration(i)*every), failed)
		}
	}
	for _, c := range []struct {
		name         string
		good, failed int
		every        time.Duration
		want         bool
	}{
		{"too few", 0, 99, time.Second, false},
		{"enough", 0, 100, time.Second, true},
		{"95 percent", 5, 95, time.Second, false},
		{"96 percent", 4, 96, time.Second, true},
		{"too slow", 0, 100, time.Minute, false},
		{"over an hour, more than enough", 0, 500, 30 * time.Second, true},
	} {
		var h health
		count(&h, c.good, false, 0, c.every)
		count(&h, c.failed, true, time.Duration(c.good)*c.every, c.every)
		if got := h.suspend(); got != c.want {
			t.Errorf("%s: suspend = %v, want %v", c.name, got, c.want)
		}
	}
	var h health
	count(&h, 100, true, 0, time.Second)
	h.count(start.Add(2*time.Hour), false)
	if h.suspend() {
		t.Errorf("what failed two hours ago still counts")
	}
	h.count(start.Add(-time.Hour), true) // a clock that went back
	if h.Tries[0] != 2 {
		t.Errorf("an attempt was lost when the clock went back")
	}
}

// Long cursors make the window smaller: they stand in the record, which has a bound.
func TestLongCursorsKeepTheRecordSmall(t *testing.T) {
	long := func(i int) Cursor { return Cursor(fmt.Sprintf("%0*d", maxCursorBytes, i)) }
	r := &webhookRecord{Position: long(0), Arguments: []byte(`{"q":"` + strings.Repeat("x", maxWebhookArguments-8) + `"}`), URL: "https://example.net/" + strings.Repeat("x", 2000)}
	for i := range 100 {
		w := newWindow(r)
		for n := w.room(); n > 0; n-- {
			w.add(long(1000*i+n), &formed{}).First = 1
		}
		if w.room() != 0 {
			t.Fatalf("there is still room for %d", w.room())
		}
		r.Settled, r.Tries = w.state()
		b, err := encodeRecord(r)
		if err != nil || len(b) > 64<<10 {
			t.Fatalf("the record has %d bytes, %v, want 64 KiB at most", len(b), err)
		}
		r.Settled, r.Tries = nil, nil
	}
}
