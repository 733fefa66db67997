package client

import (
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
}

// How long Ingest goes on trying.
const (
	tries      = 8
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Ingest brings the lines of an NDJSON body, and tries again where the server is
// busy or cannot be reached: events that it has seen are duplicates then. A
// request of which nothing was taken since each line is wrong is no error: its
// lines are in the receipt.
func (c *Client) Ingest(ctx context.Context, body []byte) (Receipt, error) {
	pause := firstPause
	for n := 1; ; n++ {
		r, err := c.ingest(ctx, body)
		if err == nil || n == tries || ctx.Err() != nil {
			return r, err
		}
		wait := pause
		if e, ok := errors.AsType[*ServerError](err); ok {
			if !e.Temporary() {
				return r, err
			}
			wait = max(wait, min(e.Retry, time.Minute))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return r, err
		}
		pause = min(2*pause, maxPause)
	}
}

func (c *Client) ingest(ctx context.Context, body []byte) (Receipt, error) {
	var r Receipt
	resp, err := c.do(ctx, http.MethodPost, "/v1/ingest", http.Header{"Content-Type": {"application/x-ndjson"}}, body)
	if e, ok := errors.AsType[*ServerError](err); ok && !e.Temporary() && e.Status != http.StatusUnauthorized {
		if json.Unmarshal(e.Body, &r) == nil && len(r.Rejected) > 0 {
			return r, nil
		}
	}
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&r); err != nil {
		return r, fmt.Errorf("the answer can't be read: %w", err)
	}
	return r, nil
}
