package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lines reads a pipe and leaves out the lines that are no messages: the SDK would
// end the session at the first one, and a server that prints a line by mistake
// is no rarity.
type lines struct {
	r    *bufio.Reader
	c    io.Closer
	max  int
	bad  func(over bool) // a line was left out, since it is too long or since it is no message
	line []byte          // what is left of the line that is being handed on
	err  error
}

// newLines returns a reader of r; lines longer than max are left out too.
func newLines(r io.ReadCloser, max int, bad func(over bool)) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), c: r, max: max, bad: bad}
}

// Read reads from the next message.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.line) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var over bool
		if over, l.err = l.next(); over || !blank(l.line) && !speaks(l.line) {
			l.bad(over)
			l.line = nil
		} else if blank(l.line) {
			l.line = nil
		}
	}
	n := copy(p, l.line)
	l.line = l.line[n:]
	return n, nil
}

// Close closes what is read.
func (l *lines) Close() error { return l.c.Close() }

// next reads one line, with its end; over says that it was longer than it may be.
func (l *lines) next() (over bool, err error) {
	l.line = nil
	for {
		part, err := l.r.ReadSlice('\n')
		if over = over || len(l.line)+len(part) > l.max; over {
			l.line = nil
		} else {
			l.line = append(l.line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return over, err
		}
	}
}

func blank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// speaks reports whether the SDK can read a line: one message, or older servers'
// batch of them.
func speaks(line []byte) bool {
	line = bytes.TrimSpace(line)
	if !json.Valid(line) { // the decoder below stops behind the first message
		return false
	}
	if line[0] != '[' {
		_, err := jsonrpc.DecodeMessage(line)
		return err == nil
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil || len(batch) == 0 {
		return false
	}
	for _, one := range batch {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return false
		}
	}
	return true
}

// cleaned is a transport that does what t does, and survives lines that are no
// messages, where that is possible.
func cleaned(t mcp.Transport, most int, bad func(over bool)) mcp.Transport {
	switch t := t.(type) {
	case *mcp.IOTransport:
		if t.MaxLineLength > 0 {
			most = min(most, t.MaxLineLength)
		}
		return &mcp.IOTransport{Reader: newLines(t.Reader, most, bad), Writer: t.Writer, MaxLineLength: -1}
	case *mcp.CommandTransport:
		return &command{t, most, bad}
	}
	return t
}
