package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/client"
	attend "github.com/attend-go/attend/core"
)

// How much goes into one request. A scope remembers so many ids by default, so
// that a request whose answer is lost can go again: its events are duplicates.
const (
	uploadLines = 500
	uploadBytes = 4 << 20
	// uploadPause is how long a line waits for others to go with.
	uploadPause = 20 * time.Millisecond
)

// An ingester brings the lines of a body to a server, as [client.Client] does.
type ingester interface {
	Ingest(ctx context.Context, body []byte, trouble func(error)) (client.Receipt, error)
}

// An upload brings the lines of a reader to a server, a request after the other.
type upload struct {
	client ingester
	lines  *lineReader
	log    *slog.Logger
	bar    *progress

	body  bytes.Buffer
	first []int // the number in the input of each of the body's lines

	accepted, duplicates, rejected int
	refused                        int // of the rejected, those with nothing wrong in them
}

func newUpload(c ingester, in io.Reader, errOut io.Writer, log *slog.Logger) *upload {
	bar := newProgress(in, errOut)
	return &upload{client: c, lines: newLineReader(bar.reader(in), maxLine), log: log, bar: bar}
}

// A numbered is a line of the input, or why there is none.
type numbered struct {
	number int
	text   []byte
	err    error
}

// run uploads all lines. Those that were taken before an error stay taken. The
// reader may be read once more after run has returned.
func (u *upload) run(ctx context.Context) error {
	defer u.bar.clear()
	next, done := make(chan numbered), make(chan struct{})
	defer close(done)
	go u.read(next, done)
	late := time.NewTimer(uploadPause) // for what has gathered, behind a pipe that says nothing for a while
	defer late.Stop()
	for {
		var l numbered
		select {
		case l = <-next:
		case <-late.C:
			if err := u.send(ctx); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case errors.Is(l.err, io.EOF):
			return u.send(ctx)
		case errors.Is(l.err, attend.ErrTooLarge):
			u.reject(l.number, reason(l.err))
			continue
		case l.err != nil:
			return l.err
		}
		u.body.Write(l.text)
		u.body.WriteByte('\n')
		u.first = append(u.first, l.number)
		if len(u.first) == 1 {
			late.Reset(uploadPause)
		}
		if len(u.first) == uploadLines || u.body.Len() >= uploadBytes {
			if err := u.send(ctx); err != nil {
				return err
			}
		}
	}
}

// read hands over the lines of the input until it ends, or done is closed.
func (u *upload) read(next chan<- numbered, done <-chan struct{}) {
	for more := true; more; {
		text, err := u.lines.next()
		more = err == nil || errors.Is(err, attend.ErrTooLarge)
		select {
		case next <- numbered{u.lines.number, bytes.Clone(text), err}:
		case <-done:
			return
		}
	}
}

// send brings what has gathered.
func (u *upload) send(ctx context.Context) error {
	if len(u.first) == 0 {
		return nil
	}
	r, err := u.client.Ingest(ctx, u.body.Bytes(), func(err error) {
		u.bar.clear()
		u.log.Warn("trying again", "err", err)
	})
	u.accepted += r.Accepted
	u.duplicates += r.Duplicates
	for _, x := range r.Rejected {
		u.reject(u.first[x.Line-1], x.Error)
		if x.Retry {
			u.refused++
		}
	}
	if err != nil {
		return fmt.Errorf("from line %d on: %w", u.first[0], err)
	}
	u.body.Reset()
	u.first = u.first[:0]
	u.bar.show(u.accepted + u.rejected)
	return nil
}

// outcome is an error where lines could not be taken though nothing is wrong with
// them, and with strict also for those that are wrong.
func (u *upload) outcome(strict bool) error {
	switch {
	case u.refused > 0:
		return fmt.Errorf("%s could not be taken now", count(u.refused, "line"))
	case u.rejected > 0 && strict:
		return fmt.Errorf("%s rejected", count(u.rejected, "line"))
	}
	return nil
}

func (u *upload) reject(number int, why string) {
	u.rejected++
	u.bar.clear()
	u.log.Warn("line rejected", "line", number, "err", plain(why))
}
