package mcpface

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/decisions"
	"github.com/attend-go/attend/server/internal/problem"
)

const (
	defaultTimeout = 25_000 // ms
	maxTimeout     = 60_000
	defaultLimit   = 20
	maxLimit       = 100
	// maxAnswer ends an answer: bytes of payloads, with at least one decision. It
	// goes into a model.
	maxAnswer = MaxPayload
	// storeGrace is how long the store may take behind a wait's time.
	storeGrace = 5 * time.Second
)

// waitResult is the structured content of attend_wait.
type waitResult struct {
	Decisions []json.RawMessage `json:"decisions"`
	Cursor    string            `json:"cursor"`
	Truncated bool              `json:"truncated"`
	TimedOut  bool              `json:"timedOut"`
	Stopping  bool              `json:"stopping,omitempty"`
}

// wait is attend_wait.
func (f *Face) wait(ctx context.Context, a *args) (*result, error) {
	scope, cursor := attend.Prefix(a.text("scope")), a.text("cursor")
	timeout := time.Duration(a.number("timeoutMs", defaultTimeout, 0, maxTimeout)) * time.Millisecond
	limit := a.number("limit", defaultLimit, 1, maxLimit)
	if err := a.end("scope", "cursor", "timeoutMs", "limit"); err != nil {
		return nil, err
	}
	if checkPrefix(scope) != nil {
		return nil, wrong("scope", "at most 512 bytes without control characters")
	}
	after, err := attend.ParseLogCursor(cursor)
	if err != nil {
		return nil, wrong("cursor", "one that an earlier call answered, unchanged; or none, to begin now")
	}
	p := access.From(ctx)
	if !p.Read {
		return nil, errRead
	}
	q := decisions.Query{After: after, Prefixes: p.Readable(scope), Limit: limit}
	if !f.places.take(p.Name) {
		return nil, problem.With(429, "too many calls wait already, try again later")
	}
	defer f.places.leave(p.Name)
	seat := f.c.Feed.Join("wait")
	defer seat.Leave()
	return f.await(ctx, q, timeout)
}

// errRead is the answer to who may read nothing anywhere.
var errRead = problem.With(403, "you have no right to read here")

// await answers as soon as there is something to tell.
func (f *Face) await(ctx context.Context, q decisions.Query, timeout time.Duration) (*result, error) {
	until, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	go func() {
		select {
		case <-f.stopping:
			cancel()
		case <-until.Done():
		}
	}()
	reads, stop := context.WithTimeout(ctx, timeout+storeGrace)
	defer stop()
	if (q.After == attend.LogCursor{}) {
		now, err := f.c.Feed.Now(reads)
		if err != nil {
			return nil, err
		}
		q.After = now
	}
	for {
		page, err := f.c.Feed.Read(reads, q)
		if err != nil {
			return nil, err
		}
		truncated := page.Truncated || len(page.Unreadable) > 0
		if len(page.Items) > 0 || truncated {
			return answer(page, truncated)
		}
		q.After = page.Next
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case until.Err() != nil:
			return f.nothing(q.After)
		case page.More:
			continue
		}
		// When the time is over it is read once more: something may have come with it.
		if err := f.c.Feed.Wait(until, q); err != nil {
			pause(until, time.Second) // a log that can't wait can still be read
		}
	}
}

// nothing is the answer when nothing came.
func (f *Face) nothing(at attend.LogCursor) (*result, error) {
	r := waitResult{Decisions: []json.RawMessage{}, Cursor: at.String(), TimedOut: true}
	text := "Nothing yet."
	select {
	case <-f.stopping:
		r.TimedOut, r.Stopping = false, true
		text = "The server is about to stop; call again in a moment."
	default:
	}
	return r.result(text + "\n" + cursorLine(r.Cursor))
}

// answer is the answer with what a page has, as far as it goes into one.
func answer(page decisions.Page, truncated bool) (*result, error) {
	r := waitResult{Decisions: []json.RawMessage{}, Cursor: page.Next.String(), Truncated: truncated}
	var text strings.Builder
	if truncated {
		text.WriteString("Some decisions after your cursor are not kept any more.\n\n")
	}
	size := 0
	for i, it := range page.Items {
		body, err := payload(it)
		if err != nil {
			return nil, fmt.Errorf("mcpface: encode a decision: %w", err)
		}
		if size += len(body); i > 0 && size > maxAnswer {
			r.Cursor = page.Items[i-1].Cursor.String()
			break
		}
		r.Decisions = append(r.Decisions, body)
		fmt.Fprintf(&text, "[%s] %s\n%s\n\n", it.Decision.Route, it.Decision.Scope(), attend.DefaultNotice(it.Decision))
	}
	text.WriteString(cursorLine(r.Cursor))
	return r.result(text.String())
}

func cursorLine(cursor string) string { return "Next cursor: " + cursor }

func (r *waitResult) result(text string) (*result, error) {
	content, err := marshal(r)
	if err != nil {
		return nil, err
	}
	return &result{content, text}, nil
}
