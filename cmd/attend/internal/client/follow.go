package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxMessage is how long a message of a stream may be.
const maxMessage = 64 << 20

// A Message is one event of a stream (Server-Sent Events).
type Message struct {
	Type string // decision, unreadable, truncated, end
	ID   string // the cursor behind it; empty where it has none
	Data json.RawMessage
}

// errEnded: the stream is over, and may be asked for again.
var errEnded = errors.New("the stream has ended")

// Follow yields the messages of GET /v1/decisions to take, and goes on behind the
// last one whenever the connection breaks, until ctx ends, take returns an error,
// or the server says what waiting won't mend: the error is one of these. Trouble
// is told of each break.
func (c *Client) Follow(ctx context.Context, query url.Values, take func(Message) error, trouble func(error)) error {
	last := ""
	pause := firstPause
	for {
		path := "/v1/decisions?" + query.Encode()
		header := http.Header{"Accept": {"text/event-stream"}}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		var stop error
		err := c.stream(ctx, path, header, func(m Message) error {
			if m.Type != "" || len(m.Data) > 0 {
				if stop = take(m); stop != nil {
					return stop
				}
			}
			pause = firstPause
			if m.ID != "" {
				last = m.ID
			}
			return nil
		})
		if stop != nil || ctx.Err() != nil {
			return errors.Join(stop, ctx.Err())
		}
		wait := pause
		if e, ok := errors.AsType[*ServerError](err); ok {
			if !e.Temporary() {
				return err
			}
			wait = max(wait, min(e.Retry, time.Minute))
		}
		trouble(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

// silence is how long a stream may say nothing: the server sends a comment each 15
// seconds.
const silence = time.Minute

// stream reads one stream to its end.
func (c *Client) stream(ctx context.Context, path string, header http.Header, take func(Message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.do(ctx, http.MethodGet, path, header, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return errors.New("the answer is no stream; is this an attend server?")
	}
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing was heard for %v", silence)) })
	defer quiet.Stop()
	err = messages(resp.Body, func() { quiet.Reset(silence) }, take)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// messages parses a stream (HTML, section 9.2.6). heard is called for each line. A
// message may have nothing but a cursor: the server says where a reader is who
// sees no decision for long.
func messages(r io.Reader, heard func(), take func(Message) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	var m Message
	var data bytes.Buffer
	for first := true; ; first = false {
		line, err := readLine(b)
		if err != nil {
			return err // an unfinished message is none
		}
		heard()
		if first {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if data.Len() > 0 || m.Type != "" || m.ID != "" {
				m.Data = bytes.Clone(bytes.TrimSuffix(data.Bytes(), []byte("\n")))
				if err := take(m); err != nil {
					return err
				}
			}
			m, data = Message{}, bytes.Buffer{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			m.Type = string(value)
		case "id":
			m.ID = string(value)
		case "data":
			if data.Len()+len(value) > maxMessage {
				return fmt.Errorf("a message is longer than %d bytes", maxMessage)
			}
			data.Write(value)
			data.WriteByte('\n')
		}
	}
}

// readLine reads a line without its end, LF or CRLF.
func readLine(b *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		case errors.Is(err, io.EOF):
			return nil, errEnded
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("the stream breaks off: %w", err)
		case len(line) > maxMessage:
			return nil, fmt.Errorf("a message is longer than %d bytes", maxMessage)
		}
	}
}
