package wire

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The headers of the transport.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// HTTP is the front of the SDK's handlers of Streamable HTTP. It serves the
// routes, tells the revisions of the protocol apart, and guards each response.
// What is wrong with a request of ours in the base protocol's terms is left to
// the SDK's handler to say, so that every method is refused in the same words.
type HTTP struct {
	Routes  *Routes
	Modern  http.Handler  // stateless, for 2026-07-28
	Plain   http.Handler  // the same, for events/*: one JSON object as the answer
	Old     http.Handler  // with sessions, for the revisions before
	MaxBody int64         // bytes of a request's body
	Timeout time.Duration // for one write to make its way
	AnyHost bool          // take any Host on a loopback address
	Stuck   func()        // called where a response cannot be flushed, which a stream needs

	pool sync.Pool // of *[]byte, the streams' buffers
	once sync.Once // for Stuck
}

// An envelope is what the front has to know of a request.
type envelope struct {
	id     json.RawMessage // nil where it is no string and no integer
	called bool            // there is an id of whatever kind
	method string
	params json.RawMessage
	base   base
}

// ServeHTTP serves one request.
func (h *HTTP) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !h.AnyHost && rebound(r) {
		http.Error(rw, "Forbidden: Host is not a loopback name", http.StatusForbidden)
		return
	}
	var body []byte
	if r.Method == http.MethodPost && r.Body != nil {
		var err error
		if body, err = io.ReadAll(http.MaxBytesReader(rw, r.Body, h.MaxBody)); err != nil {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				http.Error(rw, "request body too large", http.StatusRequestEntityTooLarge)
				return
			}
			http.Error(rw, "request body cannot be read", http.StatusBadRequest)
			return
		}
		if !json.Valid(body) { // the SDK reads its first value, and this here all
			http.Error(rw, "request body is no JSON", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	w := newGuard(rw, h.Timeout)
	defer w.done(r)
	e := open(body)
	if name := ambiguous(r.Header); name != "" {
		fail(w, http.StatusBadRequest, e.id, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: name + " twice, and not the same"})
		return
	}
	if r.Header.Get(headerVersion) < firstStateless && e.base.version < firstStateless {
		h.old(w, r)
		return
	}
	ours := strings.HasPrefix(e.method, eventsPrefix)
	if ours && !named(r.Header, e.params) {
		fail(w, http.StatusBadRequest, e.id, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: headerName + " does not match params.name"})
		return
	}
	if (ours || e.method == methodListen) && e.id == nil && e.called {
		fail(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "request id is no string and no integer, or too long"})
		return
	}
	sound := e.sound(r)
	switch {
	case e.method == methodStream && sound:
		h.serve(w, r, e, h.Routes.Stream)
		return
	case e.method == methodListen:
		events, others := asks(e.params)
		events = events && sound && h.Routes.Listen != nil
		if events && !others {
			h.serve(w, r, e, h.Routes.listen)
		} else {
			h.join(w, r, e, events)
		}
		return
	}
	if ours {
		mark := new(bool)
		w.plain = mark
		//check:allow context http.Handler has no argument to carry it
		h.Plain.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), plainKey{}, mark)))
		return
	}
	h.Modern.ServeHTTP(w, r)
}

// old serves sessions. Beside its requests one has a stream that nothing else
// would end when the server closes.
func (h *HTTP) old(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		h.Old.ServeHTTP(w, r)
		return
	}
	if h.Routes.Closing.Err() != nil {
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "Method Not Allowed: the server closes", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.Routes.Closing, cancel)()
	h.Old.ServeHTTP(w, r.WithContext(ctx))
}

type plainKey struct{}

// Plain notes that the error answer to a call is the extension's and not the
// base protocol's: on HTTP it travels with status 200.
func Plain(ctx context.Context) {
	if mark, ok := ctx.Value(plainKey{}).(*bool); ok {
		*mark = true
	}
}

// serve serves a call of ours.
func (h *HTTP) serve(w *guard, r *http.Request, e envelope, serve Handler) {
	if !h.flushes(w, e) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &sse{w: w, pool: &h.pool}
	c := &Call{ID: bytes.Clone(e.id), Params: e.params, out: s}
	r.Body = http.NoBody // the call may be long, and what asked for it large
	defer c.over()
	res, err := serve(ctx, c)
	if ctx.Err() != nil || s.err != nil {
		return
	}
	if err != nil && !s.started {
		refuse(w, c.ID, Answer(err))
		return
	}
	if s.frame(response(c.ID, res, err)) == nil {
		_ = s.flush()
	}
}

// flushes reports whether a response can be flushed, and answers where it cannot.
func (h *HTTP) flushes(w *guard, e envelope) bool {
	rw := w.ResponseWriter
	for {
		switch t := rw.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			rw = t.Unwrap()
			continue
		}
		if h.Stuck != nil {
			h.once.Do(h.Stuck)
		}
		fail(w, http.StatusInternalServerError, e.id, Answer(nil))
		return false
	}
}

// open reads what can be read of a body.
func open(body []byte) envelope {
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return envelope{}
	}
	e := envelope{params: m["params"], base: baseOf(m["params"])}
	_ = json.Unmarshal(m["method"], &e.method)
	_, e.called = m["id"]
	if id := m["id"]; len(id) > 0 && len(id) <= maxID && (id[0] == '"' || isInteger(id)) {
		e.id = id
	}
	if string(m["jsonrpc"]) != `"2.0"` {
		e.base.sound = false
	}
	return e
}

// ambiguous is the name of a header that two readers could read differently.
func ambiguous(header http.Header) string {
	for _, name := range []string{headerVersion, headerMethod, headerName} {
		for _, v := range header.Values(name) {
			if v != header.Get(name) {
				return name
			}
		}
	}
	return ""
}

func isInteger(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return (r < '0' || r > '9') && r != '-' }) < 0
}

// sound reports whether the request is as the base protocol wants it.
func (e envelope) sound(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return e.base.sound && e.id != nil && r.Method == http.MethodPost && kind == "application/json" &&
		r.Header.Get(headerVersion) == e.base.version && r.Header.Get(headerMethod) == e.method &&
		r.Header.Get("Last-Event-Id") == "" &&
		accepts(accept, "application/json", "application/*") && accepts(accept, "text/event-stream", "text/*")
}

func accepts(header string, kinds ...string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(part, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "*/*" {
			return true
		}
		for _, k := range kinds {
			if name == k {
				return true
			}
		}
	}
	return false
}

// named reports whether Mcp-Name, which events/* need not have, is params.name.
func named(header http.Header, params json.RawMessage) bool {
	name := header.Get(headerName)
	if name == "" {
		return true
	}
	if text, ok := strings.CutPrefix(name, "=?base64?"); ok {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, "?="))
		if err != nil {
			return false
		}
		name = string(raw)
	}
	var p map[string]json.RawMessage
	var want string
	return json.Unmarshal(params, &p) == nil && json.Unmarshal(p["name"], &want) == nil && name == want
}

// rebound reports whether a request came in on a loopback address under a name
// that is none: a page in a browser whose name was made to point here.
func rebound(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && loopback(a.String()) && !loopback(r.Host)
}

func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// response is an answer as it travels.
func response(id, result json.RawMessage, err error) []byte {
	if err == nil {
		return append(append(append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":`...), result...), '}')
	}
	text, merr := json.Marshal(Answer(err))
	if merr != nil { // data that is no JSON
		text = []byte(`{"code":-32603,"message":"InternalError"}`)
	}
	b := []byte(`{"jsonrpc":"2.0",`)
	if id != nil {
		b = append(append(append(b, `"id":`...), id...), ',')
	}
	return append(append(append(b, `"error":`...), text...), '}')
}

// refuse answers with an error of ours instead of a stream.
func refuse(w http.ResponseWriter, id json.RawMessage, e *jsonrpc.Error) {
	status := http.StatusOK
	if e.Code == jsonrpc.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	fail(w, status, id, e)
}

// fail answers with an error instead of a stream.
func fail(w http.ResponseWriter, status int, id json.RawMessage, e *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(response(id, nil, e))
}
