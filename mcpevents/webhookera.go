package mcpevents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// An era of a type begins with a change that breaks what was subscribed to before.
// The store knows the one that it is now, and each subscription that of its
// beginning: so one of an earlier era ends, also where nobody delivered it at the
// time of the change, or the server was started anew since.
type era struct {
	V     int    `json:"v"`
	Name  string `json:"name"`  // a digest of its first schemas: each server that says the break begins the same era
	Broke Break  `json:"broke"` // what the change broke
}

var eras = codec[era]{
	decode: func(b []byte) (*era, error) {
		var e era
		if err := json.Unmarshal(b, &e); err != nil || e.V != recordVersion {
			return nil, errRecord
		}
		return &e, nil
	},
	encode: func(e *era) ([]byte, error) {
		e.V = recordVersion
		return json.Marshal(e)
	},
	due: func(*era) time.Time { return time.Time{} },
}

func eraKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "era_" + hex.EncodeToString(sum[:16])
}

// era is that of a type as it is offered; the first has no name.
func (h *webhooks) era(ctx context.Context, o *offer) (era, error) {
	if e := o.era.Load(); e != nil {
		return *e, nil
	}
	r, err := load(ctx, &h.ledger, eras, eraKey(o.Name))
	if err != nil {
		return era{}, err
	}
	if r.value == nil {
		r.value = &era{}
	}
	o.era.Store(r.value)
	return *r.value, nil
}

// begin begins an era with a type that is yet to be offered.
func (h *webhooks) begin(ctx context.Context, o *offer, broke Break) error {
	sum := sha256.Sum256([]byte(string(o.Input) + "\x00" + string(o.Payload)))
	name := hex.EncodeToString(sum[:8])
	now, err := change(ctx, &h.ledger, eras, eraKey(o.Name), nil, func(e *era) (*era, verdict, error) {
		if e != nil && e.Name == name {
			return nil, leave, nil
		}
		return &era{Name: name, Broke: broke}, put, nil
	})
	if err == nil {
		o.era.Store(now.value)
	}
	return err
}
