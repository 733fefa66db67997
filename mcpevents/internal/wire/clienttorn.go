package wire

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// torn takes a cancellation of a server's, and reports whether it names a call of
// ours. On a pipe servers end a listen so, some without a result before it. It
// means nothing for any other call.
func (p *pipe) torn(m *jsonrpc.Request) bool {
	var params struct {
		ID any `json:"requestId"`
	}
	if m.Method != noteCancelled || json.Unmarshal(m.Params, &params) != nil || !p.client.issued(params.ID) {
		return false
	}
	p.mu.Lock()
	x := p.live[params.ID.(string)]
	p.mu.Unlock()
	if x != nil && x.req.Method == methodListen && p.drop(params.ID) == x {
		x.finish(nil, nil)
	}
	return true
}
