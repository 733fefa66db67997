package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// keepAlive is how often a quiet listen on HTTP gets a comment, so that nothing
// in between takes it for dead.
const keepAlive = 15 * time.Second

// asks reports what a subscriptions/listen asks for: changes of the types of
// events, and anything else, which is the SDK's to serve.
func asks(params json.RawMessage) (events, others bool) {
	var p, filter map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p["notifications"], &filter) != nil {
		return false, true
	}
	for name, v := range filter {
		switch s := string(bytes.TrimSpace(v)); {
		case name == filterEvents:
			events = s == "true"
			others = others || s != "true" && s != "false" && s != "null"
		case s != "false" && s != "null" && s != "[]":
			others = true
		}
	}
	return events, others
}

// listen serves a listen that asks for nothing but ours.
func (r *Routes) listen(ctx context.Context, c *Call) (json.RawMessage, error) {
	w, err := r.Listen(ctx)
	if err != nil {
		return nil, err
	}
	c.Over, c.Params = w.Stop, nil
	ack := append([]byte(`{"notifications":{"`+filterEvents+`":true},`), metaOf(c.ID)...)
	if err := c.Notify(noteAcknowledged, append(ack, '}')); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return Complete(c.ID), w.follow(ctx, c.out, c.ID)
}

// follow sends list_changed for each change, until the server closes (nil), ctx
// ends or a send fails.
func (w *Watch) follow(ctx context.Context, out sink, id json.RawMessage) error {
	params := append(append([]byte{'{'}, metaOf(id)...), '}')
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Closing:
			return nil
		case <-tick.C:
			err = out.beat()
		case <-w.Changed:
			if err = out.note(noteListChanged, params); err == nil {
				err = out.flush()
			}
		}
		if err != nil {
			return err
		}
	}
}

// acknowledge adds ours to the SDK's acknowledgement of a mixed listen.
func acknowledge(params json.RawMessage) json.RawMessage {
	var p, filter map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil || p == nil {
		return params
	}
	if json.Unmarshal(p["notifications"], &filter) != nil || filter == nil {
		filter = map[string]json.RawMessage{}
	}
	filter[filterEvents] = json.RawMessage("true")
	var err error
	if p["notifications"], err = json.Marshal(filter); err != nil {
		return params
	}
	out, err := json.Marshal(p)
	if err != nil {
		return params
	}
	return out
}

// subscriptionOf is the subscription id in params, raw; nil where there is none.
func subscriptionOf(params json.RawMessage) json.RawMessage {
	var p, meta map[string]json.RawMessage
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p["_meta"], &meta) != nil {
		return nil
	}
	return meta[mcp.MetaKeySubscriptionID]
}
