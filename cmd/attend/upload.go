package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/client"
	attend "github.com/attend-go/attend/core"
)

// How much goes into one request, so that a server takes it in some time, and
// little has to go again where that fails.
const (
	uploadLines = 5000
	uploadBytes = 4 << 20
)

// An upload brings the lines of a reader to a server, a request after the other.
type upload struct {
	client *client.Client
	lines  *lineReader
	log    *slog.Logger
	bar    *progress

	body  bytes.Buffer
	first []int // the number in the input of each of the body's lines

	accepted, duplicates, rejected int
}

func newUpload(c *client.Client, in io.Reader, errOut io.Writer, log *slog.Logger) *upload {
	bar := newProgress(in, errOut)
	return &upload{client: c, lines: newLineReader(bar.reader(in), maxLine), log: log, bar: bar}
}

// run uploads all lines. Those that were taken before an error stay taken.
func (u *upload) run(ctx context.Context) error {
	defer u.bar.clear()
	for {
		// Not behind a pipe that says nothing for a while.
		if u.lines.waits() {
			if err := u.send(ctx); err != nil {
				return err
			}
		}
		b, err := u.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return u.send(ctx)
		case errors.Is(err, attend.ErrTooLarge):
			u.reject(u.lines.number, reason(err))
			continue
		case err != nil:
			return err
		}
		u.body.Write(b)
		u.body.WriteByte('\n')
		u.first = append(u.first, u.lines.number)
		if len(u.first) == uploadLines || u.body.Len() >= uploadBytes {
			if err := u.send(ctx); err != nil {
				return err
			}
		}
	}
}

// send brings what has gathered.
func (u *upload) send(ctx context.Context) error {
	if len(u.first) == 0 {
		return nil
	}
	r, err := u.client.Ingest(ctx, u.body.Bytes())
	u.accepted += r.Accepted
	u.duplicates += r.Duplicates
	for _, x := range r.Rejected {
		number := 0
		if x.Line > 0 && x.Line <= len(u.first) {
			number = u.first[x.Line-1]
		}
		u.reject(number, x.Error)
	}
	if err != nil {
		return fmt.Errorf("from line %d on: %w", u.first[0], err)
	}
	u.body.Reset()
	u.first = u.first[:0]
	u.bar.show(u.accepted + u.rejected)
	return nil
}

func (u *upload) reject(number int, why string) {
	u.rejected++
	u.bar.clear()
	u.log.Warn("line rejected", "line", number, "err", plain(why))
}

// A progress is a line on a terminal that says how far an upload is. It begins
// when that takes some time.
type progress struct {
	w     io.Writer // nil: nobody looks
	size  int64     // of the input; 0: nobody knows
	read  int64
	begun time.Time
	shown bool
}

func newProgress(in io.Reader, errOut io.Writer) *progress {
	p := &progress{begun: time.Now()}
	if colored(errOut) {
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

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.p.read += int64(n)
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
	part := min(1, float64(p.read)/float64(p.size))
	done := int(part * barWidth)
	fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %3.0f%%  %s", strings.Repeat("=", done), strings.Repeat(" ", barWidth-done), 100*part, count(lines, "line"))
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
