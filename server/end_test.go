package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// V7: a server that is told to end in the middle of a stream of lines has every
// line that it answered, tells the client so, and lets it go on elsewhere.
func TestV7EndOfAnIngestStream(t *testing.T) {
	const most = 10_000
	w := newWorld(t, engine.Config{}, server.Config{})
	base, stop := w.serving(t, server.Listen{})
	lines, feed := io.Pipe()
	r, err := http.NewRequest("POST", base+"/v1/ingest/stream", lines)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	var sent atomic.Int64
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for i := range most {
			if _, err := fmt.Fprintf(feed, `{"scope":"ops/%d","id":"%d","name":"log"}`+"\n", i%50, i); err != nil {
				return // the server has ended
			}
			sent.Add(1)
		}
		_ = feed.Close() // it can't fail
	}()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	type answer struct {
		Line, Accepted *int
		Ok, Retry      bool
		Error          string
	}
	var acked []int
	var last answer
	ended := make(chan error, 1)
	in := bufio.NewScanner(res.Body)
	for in.Scan() {
		var a answer
		_ = json.Unmarshal(in.Bytes(), &a) // a credit has none of it; rejected is a number in the totals alone
		if a.Line != nil && a.Ok {
			acked = append(acked, *a.Line)
		}
		if len(acked) == most/10 && a.Ok {
			go func() { ended <- stop() }()
		}
		last = a
	}
	if err := in.Err(); err != nil {
		t.Errorf("the answer broke: %v", err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Serve has not ended")
	}
	_ = lines.Close() // nobody reads any more
	<-fed
	if last.Accepted == nil || *last.Accepted != len(acked) || last.Error == "" || !last.Retry {
		t.Errorf("the last line is %+v, want totals of %d lines and why the stream ended", last, len(acked))
	}
	if len(acked) == most {
		t.Skip("all was answered before the server ended: a machine as fast as that shows nothing here")
	}
	// What was answered is there: it is a repeat now.
	for _, n := range acked {
		i := n - 1
		receipt, err := w.engine.Push(t.Context(), attend.Scope(fmt.Sprint("ops/", i%50)), attend.Event{ID: fmt.Sprint(i), Name: "log"})
		if err != nil {
			t.Fatal(err)
		}
		if receipt.Duplicates != 1 {
			t.Fatalf("line %d was answered and is not there", n)
		}
	}
	t.Logf("%d lines sent, %d answered", sent.Load(), len(acked))
}

// Requests that come while the server ends are refused, not dropped.
func TestV7RequestsDuringTheEnd(t *testing.T) {
	hang := make(chan struct{})
	w := newWorld(t, engine.Config{Store: hesitant{memory.New(), hang}}, server.Config{})
	base, stop := w.serving(t, server.Listen{})
	slow := make(chan reply, 1)
	go func() {
		slow <- send(t, "POST", base+"/v1/ingest", "", `{"scope":"ops","id":"1","name":"flush.x"}`, "application/x-ndjson")
	}()
	w.until(t, w.server.Busy)
	result := make(chan error, 1)
	go func() { result <- stop() }()
	w.until(t, func() bool { return get(t, http.DefaultClient, base+"/readyz").status == 503 })
	w.until(t, func() bool { return get(t, http.DefaultClient, base+"/v1/decisions").status == 503 })
	if got := get(t, http.DefaultClient, base+"/v1/decisions"); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a request while the server ends = %d, want 503 with a time to try again", got.status)
	}
	if got := get(t, http.DefaultClient, base+"/healthz"); got.status != 200 {
		t.Errorf("health while the server ends = %d, want 200", got.status)
	}
	close(hang)
	if got := <-slow; got.status != 200 || !strings.Contains(got.body, `"accepted":1`) {
		t.Errorf("the request that was under way = %d %s, want its answer", got.status, got.body)
	}
	if err := <-result; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}
