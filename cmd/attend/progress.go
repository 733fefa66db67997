package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A progress is a line on a terminal that says how far an upload is. It begins
// when that takes some time.
type progress struct {
	w     io.Writer // nil: nobody looks
	size  int64     // of the input; 0: nobody knows
	read  atomic.Int64
	begun time.Time
	shown bool
}

func newProgress(in io.Reader, errOut io.Writer) *progress {
	p := &progress{begun: time.Now()}
	if terminal(errOut) && !dumb() {
		p.w = errOut
	}
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			p.size = info.Size()
		}
	}
	return p
}

// reader counts what is read of in.
func (p *progress) reader(in io.Reader) io.Reader { return &counted{in, p} }

type counted struct {
	io.Reader
	p *progress
}

// Read is of [io.Reader].
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.p.read.Add(int64(n))
	return n, err
}

const barWidth = 30

func (p *progress) show(lines int) {
	if p.w == nil || time.Since(p.begun) < time.Second {
		return
	}
	p.shown = true
	if p.size == 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%s", count(lines, "line"))
		return
	}
	part := min(1, float64(p.read.Load())/float64(p.size))
	done := int(part * barWidth)
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %3.0f%%  %s", strings.Repeat("=", done), strings.Repeat(" ", barWidth-done), 100*part, count(lines, "line"))
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
