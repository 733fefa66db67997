package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A Receipt is what became of the lines of a body.
type Receipt struct {
	Accepted   int        `json:"accepted"` // events, flushes and ends
	Duplicates int        `json:"duplicates"`
	Rejected   []Rejected `json:"rejected"`
}

// A Rejected is a line that was not taken.
type Rejected struct {
	Line  int    `json:"line"` // from 1
	Scope string `json:"scope,omitempty"`
	Error string `json:"error"`
	Retry bool   `json:"retry,omitempty"` // it may be taken another time
}

// How long Ingest goes on trying when nothing is taken any more.
const (
	tries      = 8
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Ingest brings the lines of an NDJSON body, each with its end and none blank. It tries
// again where the server is busy or cannot be reached, and brings once more,
// alone and in their order, lines that were refused for now and those that a
// server which ends has not read. Trouble is told of each such try. A line that is
// brought twice is a duplicate if its scope still remembers it, so a body should
// have no more lines than a scope remembers ids.
//
// The receipt is true beside an error, too: then lines that it does not count may
// have been taken or not. Lines that are wrong are no error, and neither are those
// that were still refused when the tries were over: Retry tells the two apart.
func (c *Client) Ingest(ctx context.Context, body []byte, trouble func(error)) (Receipt, error) {
	var total Receipt
	left := linesOf(body)
	pause := firstPause
	for n := 1; ; n++ {
		r, err := c.ingest(ctx, left.body())
		wait := pause
		if e, ok := errors.AsType[*ServerError](err); ok {
			if !e.Temporary() {
				return total, err
			}
			wait = max(wait, min(e.Retry, time.Minute))
		}
		if err == nil {
			before := len(left)
			var refused []Rejected
			if refused, err = left.settle(r, &total); err != nil || len(refused) == 0 {
				return total, err
			}
			if n == tries {
				total.Rejected = append(total.Rejected, refused...)
				return total, nil
			}
			if len(left) < before {
				n, pause, wait = 0, firstPause, firstPause
			}
			err = fmt.Errorf("%d of %d lines were refused for now: %s", len(left), before, refused[0].Error)
		}
		if n == tries || ctx.Err() != nil {
			return total, err
		}
		trouble(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return total, err
		}
		pause = min(2*pause, maxPause)
	}
}

// ingest brings a body once. A request of which nothing was taken, with a reason for
// each line, is no error.
func (c *Client) ingest(ctx context.Context, body []byte) (Receipt, error) {
	var r Receipt
	resp, err := c.do(ctx, http.MethodPost, "/v1/ingest", http.Header{"Content-Type": {"application/x-ndjson"}}, body)
	if e, ok := errors.AsType[*ServerError](err); ok && !e.Temporary() && e.Status != http.StatusUnauthorized {
		if json.Unmarshal(e.Body, &r) == nil && len(r.Rejected) == bytes.Count(body, []byte("\n")) {
			return r, nil
		}
	}
	if err != nil {
		return Receipt{}, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&r); err != nil {
		return r, fmt.Errorf("the answer can't be read: %w", err)
	}
	return r, nil
}

// lines are those of a body that are still to be taken.
type lines []numbered

type numbered struct {
	number int // in the body that Ingest was given
	text   []byte
}

func linesOf(body []byte) lines {
	var l lines
	for text := range bytes.Lines(body) {
		l = append(l, numbered{len(l) + 1, text})
	}
	return l
}

func (l lines) body() []byte {
	var b []byte
	for _, x := range l {
		b = append(b, x.text...)
	}
	return b
}

// settle adds an answer to total and keeps the lines that may be brought again:
// refused says why. These are the ones that the server says it of, and when it
// stopped reading at such a line, all behind it. An answer that does not account
// for each line is an error.
func (l *lines) settle(r Receipt, total *Receipt) (refused []Rejected, err error) {
	total.Accepted += r.Accepted
	total.Duplicates += r.Duplicates
	again := make(map[int]Rejected)
	counted := r.Accepted + r.Duplicates + len(r.Rejected)
	for _, x := range r.Rejected {
		if x.Line < 1 || x.Line > len(*l) {
			return nil, fmt.Errorf("the answer is about line %d of %d; is this an attend server?", x.Line, len(*l))
		}
		if x.Retry {
			again[x.Line] = x
			continue
		}
		x.Line = (*l)[x.Line-1].number
		total.Rejected = append(total.Rejected, x)
	}
	if n := len(r.Rejected); n > 0 && r.Rejected[n-1].Retry && counted == r.Rejected[n-1].Line {
		for line := counted + 1; line <= len(*l); line++ {
			again[line] = Rejected{Error: r.Rejected[n-1].Error}
		}
		counted = len(*l)
	}
	if counted != len(*l) {
		return nil, fmt.Errorf("the answer is about %d of %d lines; is this an attend server?", counted, len(*l))
	}
	var left lines
	for i, x := range *l {
		if why, ok := again[i+1]; ok {
			why.Line = x.number
			refused = append(refused, why)
			left = append(left, x)
		}
	}
	*l = left
	return refused, nil
}
