package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A taker sends requests that the SDK's transport made and keeps the answer. The
// SDK sees an answer of its own to that only where it has something left to do: to
// ask for authorization. Redirects are not followed: the session and what a request
// says are for the one host.
type taker struct {
	base             http.RoundTripper
	version, session string
	authorize        bool
	resp             *http.Response
}

// RoundTrip sends r.
func (t *taker) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Header.Get("Mcp-Protocol-Version") == "" && t.version != "" { // older revisions have it in no body
		r.Header.Set("Mcp-Protocol-Version", t.version)
	}
	if t.session != "" {
		r.Header.Set("Mcp-Session-Id", t.session)
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	if denied && t.authorize {
		t.authorize = false // it is asked for once
		return resp, nil
	}
	t.resp = resp
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// An overseer is under the SDK's session: it adds the extension to what the
// session declares, reads the handshake along, and bounds answers.
type overseer struct {
	client *Client
	base   http.RoundTripper
}

// RoundTrip sends r.
func (o *overseer) RoundTrip(r *http.Request) (*http.Response, error) {
	shaking := false
	if r.Method == http.MethodPost && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		if m, ok := decode(body).(*jsonrpc.Request); ok && m.IsCall() {
			o.client.shake.sent(m.Method, m.ID.Raw())
			shaking = m.Method == methodDiscover || m.Method == methodInitialize
			told := *m
			told.Params = o.client.shake.declare(m.Method, m.Params)
			if !bytes.Equal(told.Params, m.Params) {
				if b, err := jsonrpc.EncodeMessage(&told); err == nil {
					body = b
				}
			}
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	resp, err := o.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	stream := kind == "text/event-stream"
	if shaking {
		o.client.shake.refused(nil)
		if resp.StatusCode > 299 {
			o.client.shake.refused(statusError(resp))
		}
	}
	if !stream || shaking {
		resp.Body = &bounded{ReadCloser: resp.Body, left: o.client.cfg.MaxMessage}
	}
	resp.Body = newScreen(resp.Body, stream)
	if shaking && resp.StatusCode < 300 {
		resp.Body = &witness{ReadCloser: resp.Body, client: o.client, stream: stream}
	}
	return resp, nil
}

// A bounded body fails when it is longer than it may be.
type bounded struct {
	io.ReadCloser
	left int
}

// Read reads up to the bound.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// A witness keeps what is read of an answer to the handshake, and looks at it
// when the reader comes to its end.
type witness struct {
	io.ReadCloser
	client *Client
	stream bool
	seen   bytes.Buffer
	once   sync.Once
}

// Read reads on.
func (w *witness) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	from := max(w.seen.Len()-len("\r\n\r"), 0)
	w.seen.Write(p[:n]) // bounded by the reader beneath
	if err != nil {
		w.look(w.seen.Len())
	} else if end := blankLine(w.seen.Bytes()[from:]); w.stream && end > 0 {
		w.look(from + end)
	}
	return n, err
}

// blankLine returns where the last blank line ends in server-sent events, zero
// without one.
func blankLine(b []byte) int {
	end := 0
	for _, blank := range []string{"\n\n", "\r\r", "\n\r", "\r\n\r"} {
		if i := bytes.LastIndex(b, []byte(blank)); i >= 0 {
			end = max(end, i+len(blank))
		}
	}
	return end
}

// look passes what is complete to the handshake, n bytes.
func (w *witness) look(n int) {
	if !w.stream {
		w.once.Do(func() { w.tell(w.seen.Bytes()) })
		return
	}
	frames := newFrames(bytes.NewReader(w.seen.Next(n)), w.client.cfg.MaxMessage)
	for {
		frame, err := frames.next()
		if err != nil {
			return
		}
		w.tell(frame)
	}
}

func (w *witness) tell(frame json.RawMessage) {
	if r, ok := decode(frame).(*jsonrpc.Response); ok {
		w.client.shake.answered(r)
	}
}
