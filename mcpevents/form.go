package mcpevents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A form is a place for what an event was made into. Copies of the event share it.
type form struct {
	made atomic.Pointer[formed]
}

// A formed is an event as it leaves the server: checked, and encoded but for
// what differs from stream to stream.
type formed struct {
	key       string // of the offer that it was made for
	id        string
	timestamp string
	data      json.RawMessage // part of head
	head      []byte          // the object up to and with data, open
	meta      []byte          // members of _meta, each with a comma before it
}

// form checks an event against the type and encodes it, unless that was done. Its
// error has nothing of the event's data.
func (o *offer) form(v *Event) (*formed, error) {
	if v.form != nil {
		if f := v.form.made.Load(); f != nil && f.key == o.key {
			return f, nil
		}
	}
	if v.Name != "" && v.Name != o.Name {
		return nil, errors.New("its name is not the type's")
	}
	at := v.At.UTC()
	if v.At.IsZero() || at.Year() < 1 || at.Year() > 9999 {
		return nil, errors.New("it has no time, or one that cannot be written")
	}
	if !utf8.Valid(v.Data) {
		return nil, errors.New("its data is not UTF-8")
	}
	if err := o.payload.check(v.Data); errors.Is(err, errTooMuchWork) {
		return nil, fmt.Errorf("its data %w", err)
	} else if err != nil { // the text of that error may quote the data
		return nil, errors.New("its data does not conform to the payload schema")
	}
	f := &formed{key: o.key, id: cleanID(o.Name, v.ID), timestamp: at.Format(time.RFC3339Nano)}
	var b bytes.Buffer
	b.Grow(len(v.Data) + 128)
	b.WriteString(`{"eventId":`)
	b.Write(quote(f.id))
	b.WriteString(`,"name":`)
	b.Write(quote(o.Name))
	b.WriteString(`,"timestamp":`)
	b.Write(quote(f.timestamp))
	b.WriteString(`,"data":`)
	start := b.Len()
	if err := json.Compact(&b, v.Data); err != nil { // a line break would end the message
		return nil, errors.New("its data is no JSON")
	}
	f.head = b.Bytes()
	f.data = f.head[start:len(f.head):len(f.head)]
	for name, value := range v.Meta {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, errors.New("its metadata cannot be written as JSON")
		}
		if name != mcp.MetaKeySubscriptionID { // the stream's own
			f.meta = append(append(append(append(f.meta, ','), quote(name)...), ':'), text...)
		}
	}
	if v.form != nil {
		v.form.made.Store(f)
	}
	return f, nil
}

// wire is the event's form in a poll.
func (f *formed) wire(name string, meta map[string]any) wireEvent {
	return wireEvent{ID: f.id, Name: name, Timestamp: f.timestamp, Data: f.data, Meta: meta}
}

// quote is a string as JSON.
func quote(s string) []byte { return appendQuoted(make([]byte, 0, len(s)+2), s) }

// appendQuoted adds a string as JSON to b.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string can always be written
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// cleanID is an event's id in the alphabet that ids have on the wire: itself
// where it fits, else what its hash makes of it, always the same.
func cleanID(name, id string) string {
	fits := len(id) >= 1 && len(id) <= 128
	for i := 0; fits && i < len(id); i++ {
		c := id[i]
		fits = 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == ':' || c == '-'
	}
	if fits {
		return id
	}
	sum := sha256.Sum256([]byte(name + "\x00" + id))
	return "sha256:" + hex.EncodeToString(sum[:20])
}
