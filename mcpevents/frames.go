package mcpevents

import (
	"context"
	"encoding/json"
	"time"
)

// A writeFault is a message that could not be written: the reader is gone.
type writeFault struct{ error }

// Unwrap returns the transport's error.
func (f *writeFault) Unwrap() error { return f.error }

// appendCursor adds a position as this stream's reader gets it.
func (d *delivery) appendCursor(b []byte, c Cursor) []byte {
	if d.o.NoReplay || c == "" {
		return append(b, "null"...)
	}
	return appendQuoted(b, string(c))
}

// send sends one message at once; params are its own members, open, with a comma
// at the end.
func (d *delivery) send(method string, params []byte) error {
	params = append(append(params, d.tail...), "}}"...)
	err := d.call.Notify(method, params)
	if err == nil {
		err = d.call.Flush()
	}
	if err != nil {
		return &writeFault{err}
	}
	return nil
}

// active tells where the stream is: at its start, and behind a gap.
func (d *delivery) active(gap bool) error {
	at := d.at
	if gap {
		at = d.page.start
	}
	flag := "false"
	if gap && !d.o.NoReplay {
		flag = "true"
	}
	b := d.appendCursor([]byte(`{"cursor":`), at)
	if err := d.send(noteActive, append(b, `,"truncated":`+flag+`,`...)); err != nil {
		return err
	}
	d.at, d.alive = at, time.Now()
	return nil
}

// write writes the page and moves behind it. It leaves the rest for later when ctx
// ends or a check is due: a reader may take long for a page.
func (d *delivery) write(ctx context.Context) error {
	for i, v := range d.page.events {
		if i > 0 && (ctx.Err() != nil || time.Since(d.checked) >= d.s.config.Recheck) {
			return d.leave(i)
		}
		if err := d.call.Notify(noteEvent, d.params(v)...); err != nil {
			return &writeFault{err}
		}
	}
	if len(d.page.events) > 0 {
		if err := d.call.Flush(); err != nil {
			return &writeFault{err}
		}
		d.alive = time.Now()
	}
	clear(d.page.events) // what waits holds no events
	clear(d.parts)
	d.at, d.spare, d.page = d.page.next, d.page.events[:0], nil
	return nil
}

// leave goes on behind the first n events of the page, which are written.
func (d *delivery) leave(n int) error {
	if err := d.call.Flush(); err != nil {
		return &writeFault{err}
	}
	d.at, d.alive = d.page.events[n-1].cursor, time.Now()
	clear(d.page.events[:n])
	d.page.events = d.page.events[n:]
	return nil
}

// params are those of an event, in parts that hold until the next.
func (d *delivery) params(v readEvent) [][]byte {
	d.buf = append(d.appendCursor(append(d.buf[:0], `,"cursor":`...), v.cursor), ',')
	d.parts = append(d.parts[:0], v.head, d.buf, d.tail, v.formed.meta, closing)
	return d.parts
}

// closing ends the params of an event.
var closing = []byte("}}")

// beat sends a heartbeat when one is due. Everything up to its cursor has been
// written before.
func (d *delivery) beat() error {
	if time.Since(d.alive) < d.s.config.Heartbeat {
		return nil
	}
	b := d.appendCursor([]byte(`{"cursor":`), d.at)
	if err := d.send(noteHeartbeat, append(b, ',')); err != nil {
		return err
	}
	d.alive = time.Now()
	return nil
}

// terminated tells why the subscription is over.
func (d *delivery) terminated(cause error) error {
	text, err := json.Marshal(d.s.wireErrorOf(cause))
	if err != nil {
		return err
	}
	return d.send(noteTerminated, append(append([]byte(`{"error":`), text...), ','))
}
