package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxStreamBytes = 256 << 10              // of data, of one read
	streamPage     = 256                    // events of one read, and of one flush
	firstRetry     = 100 * time.Millisecond // after a hiccup, doubled for each further one
	lastRetry      = 10 * time.Second
	firstIdle      = time.Millisecond // after a wake-up for nothing, doubled too
	lastIdle       = time.Second
)

// errNoCursor is a backend's fault.
var errNoCursor = errors.New("mcpevents: the backend returned an empty cursor")

// A delivery is the goroutine of one stream: it reads pages from the backend, as
// fast as its reader takes them, and holds no queue.
type delivery struct {
	s    *Server
	call *wire.Call
	st   *stream
	o    *offer // of the running phase

	at      Cursor    // behind the last event written
	page    *readPage // read and not written
	floor   time.Time // what is replayed happened after it; zero once there is no more to replay
	alive   time.Time // of the last active, event or heartbeat
	checked time.Time // of the last permission
	fails   int       // hiccups in a row
	idles   int       // wake-ups for nothing in a row

	tail  []byte // the member _meta, open
	buf   []byte
	parts [][]byte
	spare []readEvent // of the last page, for the next
}

// stream serves one events/stream.
func (s *Server) stream(ctx context.Context, c *wire.Call) (json.RawMessage, error) {
	d := &delivery{s: s, call: c}
	d.tail = append([]byte(`"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), c.ID...)
	opening, opened := s.opening(ctx)
	err := d.open(opening)
	opened()
	c.Params = nil
	if d.st != nil {
		c.Over = func() { s.leave(d.st) }
	}
	if err != nil {
		if s.closing.Err() != nil {
			err = refuse(Internal, "reason", "closing")
		}
		return nil, s.answer(ctx, err)
	}
	if err := d.live(ctx); err != nil { // the reader is gone
		return nil, err
	}
	return wire.Complete(c.ID), nil
}

// opening is the time that a stream may take to open: a heartbeat, and no longer
// than the server is open.
func (s *Server) opening(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Heartbeat)
	stop := context.AfterFunc(s.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// open checks everything, finds the start and reads the first page. Its error is
// the answer, and no notification was sent.
func (d *delivery) open(ctx context.Context) error {
	p, err := paramsOf(d.call.Params)
	if err != nil {
		return err
	}
	r, err := d.s.request(ctx, p, Push)
	if err != nil {
		return err
	}
	if err := d.s.permit(ctx, r.offer, r.sub); err != nil {
		return err
	}
	if d.st, err = d.s.admit(r.sub); err != nil {
		return err
	}
	d.o, d.checked = r.offer, time.Now()
	if r.cursor == "" || r.offer.NoReplay {
		d.at, err = d.s.head(ctx, r.offer, r.sub)
		return err
	}
	d.at, d.floor = r.cursor, d.s.notBefore(r.maxAge)
	return d.read(ctx)
}

// paramsOf reads the params of a stream as the SDK reads those of a poll.
func paramsOf(raw json.RawMessage) (*pollParams, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil, invalid("", "must be an object")
	}
	return &pollParams{Name: m["name"], Arguments: m["arguments"], Cursor: m["cursor"], MaxAge: m["maxAgeMs"]}, nil
}

// live sends everything from active to the end. An error is that of the reader.
func (d *delivery) live(ctx context.Context) error {
	gap := d.page != nil && d.page.truncated
	if err := d.active(gap); err != nil {
		return err
	}
	for {
		phase, o, over := d.s.phase(ctx, d.st)
		if over == nil && o == nil {
			return ctx.Err() // the server closes
		}
		if over == nil {
			over = d.adopt(o)
		}
		if over == nil {
			over = d.run(phase)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ends(over):
			return d.terminated(over)
		case over != nil:
			return over
		}
	}
}

// adopt goes over to the type as it is now, if this stream still fits it.
func (d *delivery) adopt(o *offer) error {
	if o == d.o {
		return nil
	}
	d.o, d.page = o, nil
	d.checked = time.Time{}
	if o.input.check(d.st.sub.Arguments) != nil {
		return schemaChanged(BreaksInput)
	}
	if !slices.Contains(o.modes, Push) {
		return refuse(Unsupported, "feature", "deliveryMode", "value", string(Push))
	}
	return nil
}

// run delivers until ctx, the phase's, ends. An error ends the stream.
func (d *delivery) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := d.step(ctx)
		if err == nil {
			continue
		}
		if _, gone := errors.AsType[*writeFault](err); gone || ends(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := d.hiccup(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// step does one thing: ask for permission, read, write, or wait.
func (d *delivery) step(ctx context.Context) error {
	if time.Since(d.checked) >= d.s.config.Recheck {
		if err := d.recheck(ctx); err != nil {
			return err
		}
	}
	if d.page == nil {
		if err := d.read(ctx); err != nil {
			return err
		}
		if d.page.truncated {
			d.s.log.Debug("mcpevents: gap in a stream", "type", d.o.Name)
			if !d.o.NoReplay {
				if err := d.active(true); err != nil {
					return err
				}
			}
		}
	}
	moved, more := d.page.next != d.at, d.page.more
	if err := d.write(ctx); err != nil {
		return err
	}
	if d.page != nil { // left in the middle
		d.fails, d.idles = 0, 0
		return nil
	}
	if !more {
		d.floor = time.Time{}
	}
	if err := d.beat(); err != nil {
		return err
	}
	switch {
	case moved:
		d.fails, d.idles = 0, 0
	case more || d.idles > 0:
		if err := d.rest(ctx); err != nil {
			return err
		}
	}
	if more {
		return nil
	}
	return d.wait(ctx)
}

// read reads the next page within the time that the reader may be left alone.
func (d *delivery) read(ctx context.Context) error {
	within := d.s.config.Heartbeat
	if _, ok := d.o.Backend.(*Log); ok && !d.alive.IsZero() { // it keeps what it did until then
		within = max(time.Until(d.alive.Add(within)), within/4)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	spare := d.spare
	p, err := patient(d, func() (readPage, error) {
		return d.s.readInto(ctx, d.o, d.st.sub, Query{After: d.at, NotBefore: d.floor, Limit: streamPage}, maxStreamBytes, spare)
	})
	if err == nil {
		d.page, d.spare = &p, nil
	}
	return err
}

// wait waits for more, for a heartbeat or for a check to be due.
func (d *delivery) wait(ctx context.Context) error {
	due := min(time.Until(d.alive.Add(d.s.config.Heartbeat)), time.Until(d.checked.Add(d.s.config.Recheck)))
	wait, cancel := context.WithTimeout(ctx, due)
	defer cancel()
	_, err := guarded(d.s, "Backend.Wait", func() (struct{}, error) {
		return struct{}{}, d.o.Backend.Wait(wait, d.st.sub, d.at)
	})
	if err == nil {
		d.fails = 0
		d.idles++ // until something comes of it
		return nil
	}
	if wait.Err() != nil {
		d.fails, d.idles = 0, 0
		return d.beat()
	}
	return err
}

// rest keeps a backend that calls for nothing from taking a processor.
func (d *delivery) rest(ctx context.Context) error {
	pause(ctx, min(firstIdle<<min(d.idles, 10), lastIdle))
	d.idles++
	return d.beat()
}

// recheck asks for permission anew.
func (d *delivery) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.s.config.Heartbeat)
	defer cancel()
	if t := auth.TokenInfoFromContext(ctx); t != nil && !t.Expiration.IsZero() && time.Now().After(t.Expiration) {
		return refuse(Forbidden, "reason", "token expired")
	}
	seen, err := patient(d, func() (bool, error) { return d.s.visible(ctx, d.o, d.st.sub.Principal) })
	if err != nil {
		return err
	}
	if !seen {
		if err := ctx.Err(); err != nil {
			return err
		}
		return refuse(NotFound, "kind", "event")
	}
	if _, err := patient(d, func() (struct{}, error) { return struct{}{}, d.s.permit(ctx, d.o, d.st.sub) }); err != nil {
		return err
	}
	d.checked = time.Now()
	return nil
}

// patient calls what others wrote and keeps the heartbeats coming meanwhile.
func patient[T any](d *delivery, f func() (T, error)) (v T, err error) {
	if _, quick := d.o.Backend.(*Log); d.alive.IsZero() || quick && d.o.Check == nil && d.o.Visible == nil {
		return f()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = f()
	}()
	for {
		t := time.NewTimer(time.Until(d.alive.Add(d.s.config.Heartbeat)))
		select {
		case <-done:
			t.Stop()
			return v, err
		case <-t.C:
		}
		if werr := d.beat(); werr != nil {
			<-done
			return *new(T), werr
		}
	}
}

// hiccup tells of a failure that is tried again, and waits before that.
func (d *delivery) hiccup(ctx context.Context, cause error) error {
	if d.fails == 0 {
		d.s.log.Warn("mcpevents: a stream's backend failed", "type", d.o.Name, "error", cause)
	}
	text, err := json.Marshal(d.s.wireErrorOf(cause))
	if err != nil {
		return err
	}
	if err := d.send(noteError, append(append([]byte(`{"error":`), text...), ',')); err != nil {
		return err
	}
	back := min(firstRetry<<min(d.fails, 10), lastRetry)
	d.fails++
	back = back/2 + rand.N(back/2)
	pause(ctx, min(back, max(time.Until(d.alive.Add(d.s.config.Heartbeat)), 0)))
	return d.beat()
}
