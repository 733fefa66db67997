package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fit gives a notification params, and reports whether it had none. The SDK's
// handlers, and an app's own, rely on params there, and nothing recovers from a
// panic in them: one line of a server would end the process.
func fit(m jsonrpc.Message) bool {
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.IsCall() || len(r.Params) > 0 && string(r.Params) != "null" {
		return false
	}
	r.Params = json.RawMessage("{}")
	return true
}

// fitted is fit for a message that the SDK is still to decode.
func fitted(text []byte) ([]byte, bool) {
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil || !fit(m) {
		return text, false
	}
	out, err := jsonrpc.EncodeMessage(m)
	return out, err == nil
}

// A screen is the body of an answer to the SDK, whose messages are made fit, one
// after the other.
type screen struct {
	io.ReadCloser
	r      *bufio.Reader
	stream bool // of server-sent events; else one message
	most   int  // bytes of an event
	out    []byte
	err    error
}

func newScreen(body io.ReadCloser, stream bool) *screen {
	return &screen{ReadCloser: body, r: bufio.NewReader(body), stream: stream, most: mcp.DefaultMaxEventSize}
}

// Read reads from the next message.
func (s *screen) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.stream {
			s.event()
			continue
		}
		if s.out, s.err = io.ReadAll(s.r); s.err == nil {
			s.out, _ = fitted(s.out)
			s.err = io.EOF
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// event reads one event as the SDK does, by lines that end with LF.
func (s *screen) event() {
	var raw, data, others []byte
	for {
		line, err := s.line(s.most - len(raw))
		raw = append(raw, line...)
		text := bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			data = append(append(data, bytes.TrimSpace(value)...), '\n')
		} else if len(text) > 0 {
			others = append(others, line...)
		}
		if len(text) > 0 && err == nil {
			continue
		}
		if s.out, s.err = raw, err; bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			if text, ok := fitted(data); ok {
				s.out = slices.Concat([]byte("data: "), text, []byte("\n"), others, []byte("\n\n"))
			}
		}
		return
	}
}

// line reads a line with its end. The SDK takes no longer ones either.
func (s *screen) line(most int) (line []byte, err error) {
	for {
		part, err := s.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return line, ErrTooLarge
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
