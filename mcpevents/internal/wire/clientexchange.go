package wire

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A Note is one notification of an exchange. One without a method stands for what
// could not be read; Over: since it is too large.
type Note struct {
	Method string
	Params json.RawMessage
	Over   bool
}

// noteOverhead is counted for each waiting note beside its bytes.
const noteOverhead = 64

// An Exchange is one call and the notifications that belong to it. One goroutine
// reads it.
type Exchange struct {
	client *Client
	req    *jsonrpc.Request
	ctx    context.Context // of the exchange: ends with the caller's, and by Close
	cancel context.CancelFunc
	gone   chan struct{} // closed when the carrier's goroutine ended
	most   int           // notes that may wait

	mu     sync.Mutex
	notes  []Note
	bytes  int
	ended  bool
	result json.RawMessage
	err    error
	wake   chan struct{} // something to read
	room   chan struct{} // something was read
}

func newExchange(ctx context.Context, c *Client, req *jsonrpc.Request) *Exchange {
	x := &Exchange{client: c, req: req, most: c.cfg.MaxQueue, gone: make(chan struct{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	x.ctx, x.cancel = context.WithCancel(ctx)
	return x
}

// Next returns the next note. Once all are read it returns how the exchange
// ended: io.EOF after a result, a *jsonrpc.Error that the server answered with,
// or what went wrong on the way. It returns early when ctx ends, also where notes
// wait: there may always be one.
func (x *Exchange) Next(ctx context.Context) (Note, error) {
	for {
		if ctx.Err() != nil {
			return Note{}, context.Cause(ctx)
		}
		x.mu.Lock()
		if len(x.notes) > 0 {
			n := x.notes[0]
			x.notes[0] = Note{}
			x.notes = x.notes[1:]
			x.bytes -= len(n.Params) + noteOverhead
			x.mu.Unlock()
			signal(x.room)
			return n, nil
		}
		ended, err := x.ended, x.err
		x.mu.Unlock()
		if ended {
			return Note{}, err
		}
		select {
		case <-x.wake:
		case <-ctx.Done():
			return Note{}, context.Cause(ctx)
		case <-x.ctx.Done():
			return Note{}, context.Cause(x.ctx)
		}
	}
}

// Ready reports whether a note waits, so that Next returns it at once.
func (x *Exchange) Ready() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.notes) > 0
}

// Result returns the result, and whether there is one.
func (x *Exchange) Result() (json.RawMessage, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result, x.ended && x.result != nil
}

// Close gives up what has not ended: it tells the server, and no note comes any
// more. It may be called again.
func (x *Exchange) Close() {
	x.client.carrier.stop(x)
	x.cancel()
}

// offer adds a note if there is room for it.
func (x *Exchange) offer(n Note) bool {
	x.mu.Lock()
	size := len(n.Params) + noteOverhead
	full := len(x.notes) >= x.most || len(x.notes) > 0 && x.bytes+size > x.client.cfg.MaxBytes
	if !full && !x.ended {
		x.notes = append(x.notes, n)
		x.bytes += size
	}
	x.mu.Unlock()
	if !full {
		signal(x.wake)
	}
	return !full
}

// push adds a note and waits for room.
func (x *Exchange) push(n Note) error {
	for !x.offer(n) {
		select {
		case <-x.room:
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		}
	}
	return nil
}

// finish ends the exchange; only the first end counts. Without an error it was
// answered with result.
func (x *Exchange) finish(result json.RawMessage, err error) {
	x.mu.Lock()
	if !x.ended {
		x.ended, x.err = true, err
		if err == nil {
			x.err = io.EOF
			if x.result = result; result == nil {
				x.result = json.RawMessage("null")
			}
		}
	}
	x.mu.Unlock()
	signal(x.wake)
}

// answered ends the exchange with the server's answer.
func (x *Exchange) answered(r *jsonrpc.Response) { x.finish(r.Result, r.Error) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
