package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/wire"
)

// A StreamQuery says from where a stream goes on. The zero value is from now on.
type StreamQuery struct {
	Cursor      Cursor        // the last one kept; empty: from now on
	MaxAge      time.Duration // replay nothing older; zero: no such bound
	MaxBuffered int           // notifications that may wait; zero: [SessionConfig.MaxBuffered]
}

// A NoteKind is what a note of a stream says.
type NoteKind string

// The kinds of notes.
const (
	NoteActive     NoteKind = "active"     // the stream runs from Cursor on; Truncated: events before may be missing
	NoteEvent      NoteKind = "event"      // Event happened; Cursor is behind it
	NoteHeartbeat  NoteKind = "heartbeat"  // the server has looked up to Cursor
	NoteError      NoteKind = "error"      // Err is an *Error of the server, which goes on
	NoteTerminated NoteKind = "terminated" // Err is an *Error of the server; the subscription is over
	NoteDropped    NoteKind = "dropped"    // Err is a *DroppedError; Cursor is behind what was dropped
)

// A Note is one notification of a stream.
type Note struct {
	Kind      NoteKind
	Cursor    Cursor // empty: there is nothing to keep
	Truncated bool
	Event     Event
	Err       error
}

// Stream opens one events/stream and yields its notes in the order of the wire.
// It ends after a NoteTerminated, and without an error when the server closes the
// stream. An error is the last pair: [Error] where the server refuses,
// [ErrOverflow], [ErrClosed], and others of the transport. It opens nothing
// again, and watches no heartbeats: [Session.Follow] does.
//
// Leaving the loop, like the end of ctx, ends the stream at the server: over HTTP
// by closing the answer, on a pipe by notifications/cancelled.
func (s *Session) Stream(ctx context.Context, sub Subscription, q StreamQuery) iter.Seq2[Note, error] {
	return func(yield func(Note, error) bool) {
		st, err := s.open(ctx, sub, q)
		if err != nil {
			yield(Note{}, err)
			return
		}
		defer st.close()
		for {
			n, err := st.next(ctx)
			switch {
			case errors.Is(err, ErrEnded):
				return
			case err != nil:
				yield(Note{}, err)
				return
			case !yield(n, nil) || n.Kind == NoteTerminated:
				return
			}
		}
	}
}

// errNoStream is what a server of an older revision over HTTP would be asked in
// vain: it could not be told that the stream is not wanted any more.
var errNoStream = fmt.Errorf("%w: a stream over HTTP needs protocol %s", ErrNoMode, firstStateless)

// streams reports whether streams can be had on this session.
func (s *Session) streams() bool { return s.stateless || !s.link.HTTP() }

// A streaming is an open events/stream.
type streaming struct {
	s    *Session
	x    *wire.Exchange
	name string
	size int  // bytes of the last note
	null bool // the last note says that there is no position, rather than nothing of one
}

func (s *Session) open(ctx context.Context, sub Subscription, q StreamQuery) (*streaming, error) {
	if !s.streams() {
		return nil, errNoStream
	}
	req, err := newWanted(sub)
	if err != nil {
		return nil, err
	}
	req.from(q.Cursor, q.MaxAge)
	x, err := s.start(ctx, methodStream, req, max(q.MaxBuffered, 0))
	if err != nil {
		return nil, err
	}
	return &streaming{s: s, x: x, name: sub.Name}, nil
}

// ready reports whether next returns at once.
func (st *streaming) ready() bool { return st.x.Ready() }

func (st *streaming) close() { st.x.Close() }

// next returns the next note, or how the stream ended: [ErrEnded] after the
// closing result.
func (st *streaming) next(ctx context.Context) (Note, error) {
	n, err := st.x.Next(ctx)
	if err == nil {
		st.size = len(n.Params)
		return st.note(n), nil
	}
	raw, ok := st.x.Result()
	if !ok || !errors.Is(err, io.EOF) {
		return Note{}, st.s.trouble(ctx, err)
	}
	var res struct {
		ResultType *string `json:"resultType"`
	}
	_ = json.Unmarshal(raw, &res) // it carries nothing, so any form of it will do
	if err := checkComplete(res.ResultType); err != nil {
		return Note{}, err
	}
	return Note{}, ErrEnded
}

// note reads a notification. What it cannot read is a NoteDropped without a
// cursor.
func (st *streaming) note(n wire.Note) Note {
	if n.Method == "" {
		return Note{Kind: NoteDropped, Err: &DroppedError{Reason: DropUnread}}
	}
	if n.Method == noteEvent {
		o := parseOccurrence(n.Params, st.name, st.s.cfg.MaxEventBytes)
		if o.drop != "" {
			return Note{Kind: NoteDropped, Cursor: o.cursor, Err: &DroppedError{o.drop, o.event.ID}}
		}
		return Note{Kind: NoteEvent, Cursor: o.cursor, Event: o.event}
	}
	var p struct {
		Cursor    json.RawMessage `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Error     *wireError      `json:"error"`
	}
	err := json.Unmarshal(n.Params, &p)
	cursor, ok := parseCursor(p.Cursor)
	st.null = string(p.Cursor) == "null"
	switch n.Method {
	case noteTerminated: // the end, however badly it is told
		if p.Error == nil {
			p.Error = &wireError{}
		}
		return Note{Kind: NoteTerminated, Err: newAnswer(p.Error.Code, p.Error.Message, p.Error.Data)}
	case noteActive:
		if err == nil && ok {
			return Note{Kind: NoteActive, Cursor: cursor, Truncated: p.Truncated && cursor != ""}
		}
	case noteHeartbeat:
		if err == nil && ok {
			return Note{Kind: NoteHeartbeat, Cursor: cursor}
		}
	case noteError:
		if err == nil && p.Error != nil {
			return Note{Kind: NoteError, Err: newAnswer(p.Error.Code, p.Error.Message, p.Error.Data)}
		}
	}
	return Note{Kind: NoteDropped, Err: &DroppedError{Reason: DropUnknown}}
}
