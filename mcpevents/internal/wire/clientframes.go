package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// frames reads the data of server-sent events. Comments, names, ids and retry
// times are passed over: streams of this protocol are not resumed by them.
type frames struct {
	r   *bufio.Reader
	max int
	err error // what the reader ended with
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

// line reads a line without its end. It keeps at most that many bytes of it, but always
// enough to tell a blank one; cut says that there were more.
func (f *frames) line(most int) (line []byte, cut bool, err error) {
	for {
		part, err := f.r.ReadSlice('\n')
		if cut = cut || len(line)+len(part) > max(most, len("\r\n")); cut {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), cut, err
	}
}
