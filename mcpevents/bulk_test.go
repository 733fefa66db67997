package mcpevents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// fullLog is a log with n events, and the position before them.
func fullLog(t testing.TB, n int) (*Log, Cursor) {
	t.Helper()
	l := NewLog(LogConfig{MaxEvents: n + 1, MaxBytes: 1 << 30})
	at, _ := l.Head(t.Context(), Subscription{})
	return l, at
}

// fill appends events of about the size that a decision has.
func fill(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		data := fmt.Sprintf(`{"decisionId":"dec-%08d","verdict":"interrupt","urgency":%d,"itemRef":"mail/inbox/2026/11/03/%08d"}`, i, i%6, i)
		if err := l.Append(Event{ID: fmt.Sprint("e", i), Data: json.RawMessage(data)}); err != nil {
			t.Error(err)
			return
		}
	}
}

func TestHTTPStreamOf100000WithAReaderThatPauses(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 5_000
	}
	l, at := fullLog(t, n)
	s, m := rawServer(t, ServerConfig{}, Type{Name: "alert", Backend: l})
	h := rawListen(t, s, m, HandlerConfig{})
	st := rawPost(t, h.URL, rawCall(1, methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, at)))
	want(t, st, noteActive)
	go fill(t, l, n)
	i := 0
	for i < n {
		line, err := st.in.ReadSlice('\n')
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if !bytes.HasPrefix(line, []byte("data: ")) || bytes.Contains(line, []byte(noteHeartbeat)) {
			continue
		}
		if !bytes.Contains(line, []byte(fmt.Sprintf(`"eventId":"e%d"`, i))) {
			t.Fatalf("event %d is %.200s", i, line)
		}
		if i++; i == n/4 || i == n/2 {
			time.Sleep(300 * time.Millisecond)
		}
	}
}

// BenchmarkStream measures events over HTTP from a log that holds them, beside a
// bare handler that writes the same bytes in the same way: as many to a write and
// a flush. It reports our events/s, the bare handler's, and the ratio.
func BenchmarkStream(b *testing.B) {
	const events = 100_000
	l, at := fullLog(b, events)
	s, m := rawServer(b, ServerConfig{}, Type{Name: "alert", Backend: l})
	fill(b, l, events)
	h := rawListen(b, s, m, HandlerConfig{})
	body := rawCall(1, methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, at))

	// what one stream sends, as the pages that it was sent in
	var pages [][]byte
	st := rawPost(b, h.URL, body)
	var page bytes.Buffer
	for in, i := 0, 0; i < events; {
		line, err := st.in.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		page.WriteString(line)
		if line != "\n" {
			continue
		}
		if len(pages) > 0 { // active is a page of its own
			in, i = in+1, i+1
		}
		if in == streamPage || len(pages) == 0 || i == events {
			pages, in = append(pages, bytes.Clone(page.Bytes())), 0
			page.Reset()
		}
	}
	st.close()
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		for _, p := range pages {
			if _, err := w.Write(p); err != nil || rc.Flush() != nil {
				return
			}
		}
	}))
	b.Cleanup(bare.Close)

	read := func(url string) time.Duration {
		began := time.Now()
		st := rawPost(b, url, body)
		defer st.close()
		in := bufio.NewReaderSize(st.resp.Body, 1<<16)
		for seen := 0; seen <= events; { // with active
			line, err := in.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if len(line) > 1 {
				seen++
			}
		}
		return time.Since(began)
	}
	var ours, theirs time.Duration
	b.ReportAllocs()
	for b.Loop() {
		ours += read(h.URL)
		theirs += read(bare.URL)
	}
	total := float64(events) * float64(b.N)
	b.ReportMetric(total/ours.Seconds(), "events/s")
	b.ReportMetric(total/theirs.Seconds(), "bare-events/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
}

// BenchmarkPoll measures polls of 100 events, without the transport.
func BenchmarkPoll(b *testing.B) {
	l, at := fullLog(b, 1000)
	s, _ := rawServer(b, ServerConfig{MaxPolls: 1 << 40}, Type{Name: "alert", Backend: l})
	fill(b, l, 1000)
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.poll(b.Context(), &pollParams{Name: quote("alert"), Cursor: quote(string(at))})
		if err != nil || len(r.Events) != 100 {
			b.Fatal(err, r)
		}
	}
}

// BenchmarkAppend measures appends to a log that a server offers.
func BenchmarkAppend(b *testing.B) {
	l := rawLog(LogConfig{})
	_, _ = rawServer(b, ServerConfig{}, rawType(l))
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Append(rawEvent("e", 1)); err != nil {
			b.Fatal(err)
		}
	}
}
