package mcpface

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/server/access"
)

// windowResult is the structured content of attend_window.
type windowResult struct {
	Scope   attend.Scope    `json:"scope"`
	Open    json.RawMessage `json:"open"`
	Held    json.RawMessage `json:"held,omitempty"`
	Judging json.RawMessage `json:"judging,omitempty"`
}

// window is attend_window. A scope that is somebody else's answers as one where
// nothing happened.
func (f *Face) window(ctx context.Context, a *args) (*result, error) {
	scope := attend.Scope(a.text("scope"))
	if err := a.end("scope"); err != nil {
		return nil, err
	}
	if scope.Check() != nil {
		return nil, wrong("scope", "the whole name of a scope: 1 to 512 bytes without control characters")
	}
	p := access.From(ctx)
	if !p.Read {
		return nil, errRead
	}
	var s machine.State
	if p.MayRead(scope) {
		var err error
		if s, err = f.c.Engine.State(ctx, scope); err != nil {
			return nil, err
		}
	}
	return show(scope, &s)
}

// show tells of a state. What is newest is kept where it is too much.
func show(scope attend.Scope, s *machine.State) (*result, error) {
	r := windowResult{Scope: scope}
	left := MaxPayload
	var text strings.Builder
	var err error
	open := s.Window()
	if r.Open, err = windowOf(open, time.Time{}, &left); err != nil {
		return nil, err
	}
	describe(&text, open, fmt.Sprintf("%s: %s piling up", scope, events(open)), "")
	if held, until, ok := s.Held(); ok {
		if r.Held, err = windowOf(held, until, &left); err != nil {
			return nil, err
		}
		describe(&text, held, events(held)+" put off", ", to be judged again at "+clock(until)+" or before")
	}
	if slot, ok := s.Slot(); ok {
		if r.Judging, err = windowOf(slot.Window, time.Time{}, &left); err != nil {
			return nil, err
		}
		describe(&text, slot.Window, events(slot.Window)+" being judged", "")
	}
	content, err := marshal(r)
	if err != nil {
		return nil, err
	}
	return &result{content, strings.TrimSuffix(text.String(), "\n")}, nil
}

// windowOf is a window's wire form, in what is left of the bytes of the answer.
func windowOf(w attend.Window, until time.Time, left *int) (json.RawMessage, error) {
	first := len(w.Events) // the oldest that is in
	for ; first > 0; first-- {
		e := w.Events[first-1]
		if !crosses(e.Data) {
			break
		}
		text, err := marshal(e)
		if err != nil {
			return nil, err
		}
		if *left -= len(text) + 1; *left < 0 {
			*left = 0
			break
		}
	}
	w.Events = w.Events[first:len(w.Events):len(w.Events)]
	text, err := marshal(w)
	if err != nil {
		return nil, err
	}
	more := ""
	if !until.IsZero() {
		more += `,"until":` + strconv.FormatInt(until.UnixMilli(), 10)
	}
	if first > 0 {
		more += `,"eventsCut":` + strconv.Itoa(first)
	}
	return append(text[:len(text)-1], more+"}"...), nil
}

// describe writes a headline, and a line for each event.
func describe(text *strings.Builder, w attend.Window, what, more string) {
	if !w.Opened.IsZero() {
		what += " since " + clock(w.Opened)
	}
	text.WriteString(what + more + ".\n")
	notice := attend.DefaultNotice(attend.Decision{Window: w})
	if i := strings.LastIndexByte(notice, '\n'); i >= 0 { // its last line tells what to do
		text.WriteString(notice[:i+1])
	}
}

func events(w attend.Window) string {
	if len(w.Events) == 1 {
		return "1 event"
	}
	return strconv.Itoa(len(w.Events)) + " events"
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
