package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// streamServe sends N lines over an open stream, the signal once AT of them are
// acknowledged, and goes on, a line a millisecond, until the stream ends, which
// must be before all are sent. It writes the lines that were acknowledged to FILE:
//
//	stream TERM|INT|KILL AT N FILE
//
// With TERM it first waits until readiness says 503, and then the stream still
// has to take lines: that needs --drain-notice. With TERM and INT the stream has
// to end with its totals.
func streamServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: stream TERM|INT|KILL AT N FILE")
	}
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	x, err := openStream(ts.Getenv("URL"))
	ts.Check(err)
	defer x.close()
	ts.Check(x.send(at))
	ts.Check(x.await(at))
	ts.Check(servedOf(ts).signal(args[0]))
	if args[0] == "TERM" {
		ts.Check(unready(ts.Getenv("URL")))
		ts.Check(x.send(100))
		ts.Check(x.await(at + 100))
	}
	for x.sent < n && x.send(1) == nil { // the server may be gone at any line
		time.Sleep(time.Millisecond)
	}
	x.in.Close()
	<-x.ended
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), x.acked.Bytes(), 0o666))
	fmt.Fprintf(ts.Stdout(), "acknowledged %d of %d sent, %s\n", x.acks, x.sent, x.last)
	if x.acks < at || x.sent == n {
		ts.Fatalf("%d lines of %d were acknowledged, want %d at least, and not all sent", x.acks, x.sent, at)
	}
	if want := fmt.Sprintf(`"accepted":%d,`, x.acks); args[0] != "KILL" && !strings.Contains(string(x.last), want) {
		ts.Fatalf("the stream ends with %s, want %s in it", x.last, want)
	}
}

// unready waits until readiness says 503.
func unready(url string) error {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		status, text, err := ask(url, "GET", "/readyz", "", "")
		if err != nil {
			return fmt.Errorf("readiness: %w", err)
		}
		if status == http.StatusServiceUnavailable && strings.Contains(text, "draining") {
			return nil
		}
	}
	return fmt.Errorf("readiness never says 503")
}

// A streaming is an open request to /v1/ingest/stream. Its answers are read as
// they come.
type streaming struct {
	in     *io.PipeWriter
	answer *http.Response
	sent   int
	ended  chan struct{} // closed when no answer comes any more

	mu     sync.Mutex
	news   sync.Cond
	credit int
	acks   int
	acked  bytes.Buffer // the lines that were acknowledged
	last   json.RawMessage
	err    error // why no answer comes any more
}

// scopes is over how many scopes the lines go: each remembers 500 events.
const scopes = 100

func streamedLine(i int) string {
	return fmt.Sprintf(`{"scope":"s%d","id":"%d","name":"log","text":"line %d"}`+"\n", i%scopes, i, i)
}

func openStream(url string) (*streaming, error) {
	c, base := reach(url)
	c.Timeout = 0
	r, w := io.Pipe()
	req, err := http.NewRequest("POST", base+"/v1/ingest/stream", r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the stream answers %d", resp.StatusCode)
	}
	x := &streaming{in: w, answer: resp, ended: make(chan struct{})}
	x.news.L = &x.mu
	go x.read()
	return x, nil
}

func (x *streaming) close() {
	x.in.Close()
	x.answer.Body.Close()
	<-x.ended
}

// read reads the answers.
func (x *streaming) read() {
	defer close(x.ended)
	d := json.NewDecoder(x.answer.Body)
	for {
		var raw json.RawMessage
		var a struct {
			Credit, Line int
			OK           bool
		}
		err := d.Decode(&raw)
		if err == nil {
			err = json.Unmarshal(raw, &a)
		}
		x.mu.Lock()
		if x.err = err; err == nil {
			x.credit += a.Credit
			x.last = raw
		}
		if a.OK {
			x.acks++
			x.acked.WriteString(streamedLine(a.Line - 1))
		}
		x.news.Broadcast()
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits for a fact about the answers.
func (x *streaming) until(fact func() bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for !fact() && x.err == nil {
		x.news.Wait()
	}
	if fact() {
		return nil
	}
	return fmt.Errorf("%d lines were acknowledged: %w", x.acks, x.err)
}

// send sends n more lines, as credit allows.
func (x *streaming) send(n int) error {
	for range n {
		if err := x.until(func() bool { return x.credit > 0 }); err != nil {
			return err
		}
		if _, err := io.WriteString(x.in, streamedLine(x.sent)); err != nil {
			return err
		}
		x.sent++
		x.mu.Lock()
		x.credit--
		x.mu.Unlock()
	}
	return nil
}

// await waits until n lines are acknowledged.
func (x *streaming) await(n int) error {
	return x.until(func() bool { return x.acks >= n })
}

// againServe sends the lines of FILE once more, and wants each to be a
// duplicate: it was there.
func againServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: again FILE")
	}
	body := ts.ReadFile(args[0])
	status, text, err := ask(ts.Getenv("URL"), "POST", "/v1/ingest", "", body)
	ts.Check(err)
	var got struct {
		Accepted, Duplicates int
		Rejected             []json.RawMessage
	}
	ts.Check(json.Unmarshal([]byte(text), &got))
	if want := strings.Count(body, "\n"); status != http.StatusOK || got.Accepted != 0 || got.Duplicates != want || len(got.Rejected) > 0 {
		ts.Fatalf("lines that were acknowledged, again: %d %s, want %d duplicates", status, text, want)
	}
	fmt.Fprintf(ts.Stdout(), "all there\n")
}
