package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRefusal is how much of an answer that is no success is read.
const maxRefusal = 1 << 20

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// An httpCarrier sends each exchange as a request of its own. The SDK's transport
// makes the request, with its headers and its authorization; the answer is read
// here, so that nothing in it can end the session, and a reader that is slow
// slows down the server.
type httpCarrier struct {
	client *Client
	base   *mcp.StreamableClientTransport

	mu     sync.Mutex
	closed bool
	live   map[*Exchange]bool
	wg     sync.WaitGroup
}

func newHTTPCarrier(c *Client, t *mcp.StreamableClientTransport) *httpCarrier {
	return &httpCarrier{client: c, base: t, live: map[*Exchange]bool{}}
}

// transport is the caller's with an eye on the handshake.
func (h *httpCarrier) transport() mcp.Transport {
	t := *h.base
	hc := h.httpClient()
	hc.Transport = &overseer{h.client, hc.Transport}
	t.HTTPClient = hc
	return &t
}

// httpClient returns a copy of the caller's, its RoundTripper never nil.
func (h *httpCarrier) httpClient() *http.Client {
	hc := *http.DefaultClient
	if h.base.HTTPClient != nil {
		hc = *h.base.HTTPClient
	}
	if hc.Transport == nil {
		hc.Transport = http.DefaultTransport
	}
	return &hc
}

func (h *httpCarrier) start(x *Exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(x.gone)
		x.finish(nil, ErrDown)
		return
	}
	h.live[x] = true
	h.wg.Go(func() {
		defer close(x.gone)
		x.finish(h.run(x))
		h.mu.Lock()
		delete(h.live, x)
		h.mu.Unlock()
	})
}

func (h *httpCarrier) stop(x *Exchange) {
	x.cancel()
	<-x.gone
}

func (h *httpCarrier) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for x := range h.live {
		x.finish(nil, ErrDown)
		x.cancel()
	}
}

func (h *httpCarrier) close() { h.wg.Wait() }

// run sends the request and reads the answer to its end.
func (h *httpCarrier) run(x *Exchange) (json.RawMessage, error) {
	resp, err := h.send(x)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// A RoundTripper that forgets the context must not hold up the reader.
	defer context.AfterFunc(x.ctx, func() { _ = resp.Body.Close() })()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, refusal(resp)
	case kind == "text/event-stream":
		return h.stream(x, resp.Body)
	case kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(h.client.cfg.MaxMessage)+1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCut, err)
		}
		if len(body) > h.client.cfg.MaxMessage {
			return nil, ErrTooLarge
		}
		if r, ok := decode(body).(*jsonrpc.Response); ok && (r.ID == x.req.ID || !r.ID.IsValid()) {
			return r.Result, r.Error
		}
		return nil, ErrUnread
	default:
		return nil, fmt.Errorf("%w: its content type is neither JSON nor an event stream", ErrUnread)
	}
}

// send sends the request by the SDK's transport and takes the answer from under it.
func (h *httpCarrier) send(x *Exchange) (*http.Response, error) {
	h.client.mu.Lock()
	version, session := h.client.version, h.client.session
	h.client.mu.Unlock()
	t := *h.base
	hc := h.httpClient()
	take := &taker{base: hc.Transport, version: version, session: session, authorize: t.OAuthHandler != nil}
	hc.Transport, hc.Timeout = take, 0 // a timeout would cover the stream
	t.HTTPClient, t.MaxRetries, t.DisableStandaloneSSE = hc, -1, true
	conn, err := t.Connect(x.ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	err = conn.Write(x.ctx, x.req) // its error is of no interest once there is an answer
	if take.resp != nil {
		return take.resp, nil
	}
	if ctxErr := context.Cause(x.ctx); ctxErr != nil {
		return nil, ctxErr
	}
	if err == nil {
		err = ErrUnread
	}
	return nil, err
}

// stream reads server-sent events: the notes of the exchange, and its answer.
func (h *httpCarrier) stream(x *Exchange, body io.Reader) (json.RawMessage, error) {
	frames := newFrames(body, h.client.cfg.MaxMessage)
	for {
		frame, err := frames.next()
		if errors.Is(err, ErrTooLarge) {
			if err := x.push(Note{Over: true}); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if ctxErr := context.Cause(x.ctx); ctxErr != nil {
				return nil, ctxErr
			}
			if errors.Is(err, io.EOF) {
				return nil, ErrCut
			}
			return nil, fmt.Errorf("%w: %w", ErrCut, err)
		}
		switch m := decode(frame).(type) {
		case *jsonrpc.Response:
			if m.ID == x.req.ID || !m.ID.IsValid() {
				return m.Result, m.Error
			}
			h.client.cfg.Stray("")
		case *jsonrpc.Request:
			if m.IsCall() || !sameID(x.req.ID, subscription(m.Params)) {
				h.client.cfg.Stray(m.Method)
				continue
			}
			if err := x.push(Note{Method: m.Method, Params: m.Params}); err != nil {
				return nil, err
			}
		default:
			if frames.err != nil { // the stream was cut in the middle of it
				continue
			}
			if err := x.push(Note{}); err != nil {
				return nil, err
			}
		}
	}
}

// decode decodes one message, also an error without an id, which is what a
// server answers to what it could not read; nil for anything else. It does in one
// go what the SDK's decoder takes much memory for.
func decode(b []byte) jsonrpc.Message {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      any             `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   *jsonrpc.Error  `json:"error"`
	}
	if json.Unmarshal(b, &m) != nil || m.Version != "2.0" {
		return nil
	}
	id, err := jsonrpc.MakeID(m.ID)
	if err != nil {
		return nil
	}
	switch {
	case m.Method != nil:
		return &jsonrpc.Request{ID: id, Method: *m.Method, Params: m.Params}
	case m.Error != nil:
		return &jsonrpc.Response{ID: id, Error: m.Error}
	case id.IsValid():
		return &jsonrpc.Response{ID: id, Result: m.Result}
	}
	return nil
}

// refusal makes an error of an answer that is no success.
func refusal(resp *http.Response) error {
	e := statusError(resp)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err == nil {
		if r, ok := decode(bytes.TrimSpace(body)).(*jsonrpc.Response); ok {
			e.Answer, _ = r.Error.(*jsonrpc.Error)
		}
	}
	return e
}

func statusError(resp *http.Response) *StatusError {
	e := &StatusError{Status: resp.StatusCode}
	after := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseInt(after, 10, 32); err == nil {
		e.RetryAfter = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		e.RetryAfter = time.Until(at)
	}
	e.RetryAfter = min(max(e.RetryAfter, 0), maxRetryAfter)
	return e
}
