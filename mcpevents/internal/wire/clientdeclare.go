package wire

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The methods of the handshake.
const (
	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
)

// A handshake reads along while the SDK's session is set up, and adds the
// extension to what the session declares.
type handshake struct {
	extension string

	mu     sync.Mutex
	asked  map[any]bool // ids of open discover and initialize requests
	client map[string]json.RawMessage
	caps   json.RawMessage
	status *StatusError
}

// declare returns params with the extension among the client's capabilities;
// params without capabilities stay as they are.
func (h *handshake) declare(method string, params json.RawMessage) json.RawMessage {
	if method != methodInitialize && !bytes.Contains(params, []byte(mcp.MetaKeyClientCapabilities)) {
		return params
	}
	var p map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil {
		return params
	}
	if method == methodInitialize {
		return set(p, "capabilities", h.with(p["capabilities"]), params)
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(p["_meta"], &meta) != nil || meta[mcp.MetaKeyClientCapabilities] == nil {
		return params
	}
	meta[mcp.MetaKeyClientCapabilities] = h.with(meta[mcp.MetaKeyClientCapabilities])
	h.mu.Lock()
	h.client = map[string]json.RawMessage{mcp.MetaKeyClientCapabilities: meta[mcp.MetaKeyClientCapabilities]}
	if info := meta[mcp.MetaKeyClientInfo]; info != nil {
		h.client[mcp.MetaKeyClientInfo] = info
	}
	h.mu.Unlock()
	raw, err := json.Marshal(meta)
	if err != nil {
		return params
	}
	return set(p, "_meta", raw, params)
}

// with returns capabilities that have the extension. Settings that the caller
// gave it stay.
func (h *handshake) with(caps json.RawMessage) json.RawMessage {
	var c, ext map[string]json.RawMessage
	if len(caps) > 0 && json.Unmarshal(caps, &c) != nil {
		return caps
	}
	if c == nil {
		c = map[string]json.RawMessage{}
	}
	_ = json.Unmarshal(c["extensions"], &ext)
	if ext[h.extension] != nil {
		return caps
	}
	if ext == nil {
		ext = map[string]json.RawMessage{}
	}
	ext[h.extension] = json.RawMessage("{}")
	raw, err := json.Marshal(ext)
	if err != nil {
		return caps
	}
	return set(c, "extensions", raw, caps)
}

// set encodes m with one more member, or returns the former text.
func set(m map[string]json.RawMessage, key string, value, former json.RawMessage) json.RawMessage {
	m[key] = value
	raw, err := json.Marshal(m)
	if err != nil {
		return former
	}
	return raw
}

// meta is the _meta of our own requests, the version left out.
func (h *handshake) meta() map[string]json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := map[string]json.RawMessage{}
	for k, v := range h.client {
		m[k] = v
	}
	if m[mcp.MetaKeyClientCapabilities] == nil {
		m[mcp.MetaKeyClientCapabilities] = h.with(json.RawMessage("{}"))
	}
	return m
}

// sent remembers a request whose answer tells the server's capabilities.
func (h *handshake) sent(method string, id any) {
	if method != methodDiscover && method != methodInitialize {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked == nil {
		h.asked = map[any]bool{}
	}
	h.asked[id] = true
}

// answered reads the capabilities off an answer to such a request.
func (h *handshake) answered(r *jsonrpc.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asked[r.ID.Raw()] {
		return
	}
	delete(h.asked, r.ID.Raw())
	var res struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if r.Error == nil && json.Unmarshal(r.Result, &res) == nil {
		h.caps = res.Capabilities
	}
}

// refused remembers an HTTP status of the session's.
func (h *handshake) refused(e *StatusError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = e
}

func (h *handshake) failed() *StatusError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

func (h *handshake) server() json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.caps
}
