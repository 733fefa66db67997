package wire

import (
	"bufio"
	"bytes"
	"io"
)

// frames reads the data of server-sent events. Comments, names, ids and retry
// times are passed over: streams of this protocol are not resumed by them.
type frames struct {
	r     *bufio.Reader
	max   int
	begun bool  // the first line was read, which may begin with a mark
	cr    bool  // the line before ended with CR, so that LF is a part of that
	err   error // what the reader ended with
}

func newFrames(r io.Reader, max int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns the data of the next event. ErrTooLarge passes over one event;
// any other error is the last.
func (f *frames) next() ([]byte, error) {
	var data []byte
	named, some, over := false, false, false
	for f.err == nil {
		line, cut, err := f.line(f.max - len(data))
		if !f.begun {
			f.begun, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		f.err = err
		switch {
		case cut:
			over, data = true, nil
		case len(line) > 0:
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "data":
				if some {
					data = append(data, '\n')
				}
				if some = true; !over {
					data = append(data, value...)
				}
			case "event":
				named = len(value) > 0 && string(value) != "message"
			}
		}
		if len(line) > 0 && err == nil || cut && err == nil {
			continue
		}
		// A blank line ends an event, and so does the end of the stream.
		if over {
			return nil, ErrTooLarge
		}
		if len(data) > 0 && !named {
			return data, nil
		}
		data, named, some = nil, false, false
	}
	return nil, f.err
}

// maxLook is how far is looked for the end of a line at once.
const maxLook = 4 << 10

// line reads a line without its end, which is LF, CRLF or CR. It keeps at most that
// many bytes of it; cut says that there were more.
func (f *frames) line(most int) (line []byte, cut bool, err error) {
	for {
		if _, err := f.r.Peek(1); err != nil {
			return line, cut, err
		}
		part, _ := f.r.Peek(min(f.r.Buffered(), maxLook)) // it waits already
		if f.cr && part[0] == '\n' {
			_, _ = f.r.Discard(1)
			f.cr = false
			continue
		}
		f.cr = false
		n, end := len(part), false
		for _, b := range []byte("\n\r") {
			if i := bytes.IndexByte(part[:n], b); i >= 0 {
				n, end = i, true
			}
		}
		if cut = cut || len(line)+n > max(most, 0); cut {
			line = nil
		} else {
			line = append(line, part[:n]...)
		}
		if !end {
			_, _ = f.r.Discard(n)
			continue
		}
		f.cr = part[n] == '\r'
		_, _ = f.r.Discard(n + 1)
		return line, cut, nil
	}
}
