package ingest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// A cloudFormat reads CloudEvents 1.0 in their JSON format, and those whose
// attributes are headers. An event's id is source and id with a space between
// them, and the hash of that where it is longer than an id may be: a source is a
// URI reference and has no space, so no two events share one. Its name is type,
// its time is time, its data is data. Binary data, and what is no JSON, are
// {"datacontenttype","data_base64"}, as the JSON format has them. Extensions
// must have values that a CloudEvent may have; the template may name them, and
// nothing else of them is kept.
type cloudFormat struct {
	noun  string
	scope *template
	attrs map[string]string
	out   []byte // what the item's bytes are in
}

// The names that a CloudEvent has for an event's fields.
var cloudFields = map[string]string{"id": "id", "name": "type", "at": "time", "data": "data"}

func (f *cloudFormat) begin() {
	if f.attrs == nil {
		f.attrs = make(map[string]string)
	}
	clear(f.attrs)
	f.out = f.out[:0]
}

func (f *cloudFormat) read(b []byte, it *item) *reason {
	*it = item{}
	f.begin()
	var (
		o             object
		m             member
		first         *reason
		data, encoded []byte
	)
	if !o.begin(b) {
		return wants(f.noun, "one JSON object")
	}
	note := func(r *reason) {
		if first == nil {
			first = r
		}
	}
	for o.next(&m) {
		name := string(m.key)
		if _, twice := f.attrs[name]; twice || name == "data" && data != nil || name == "data_base64" && encoded != nil {
			if known(name) {
				note(wants(name, "it once, it comes twice"))
			} else {
				note(wants("extensions", "each once, one comes twice"))
			}
			continue
		}
		switch {
		case name == "data":
			data = m.value
		case m.null():
		case name == "data_base64":
			if m.kind != '"' {
				note(wants(name, "a string of base64"))
				continue
			}
			encoded, _, _ = unquote(make([]byte, 0, len(m.value)), m.inner()) // a slash may come escaped
		default:
			note(f.attribute(name, &m))
		}
	}
	if o.bad > 0 {
		if o.too != nil {
			return deep(o.too, known(string(o.too)), f.noun)
		}
		return wants(f.noun, "one JSON object; it breaks at byte "+strconv.Itoa(o.bad))
	}
	why := f.finish(it)
	switch {
	case first != nil:
		return first
	case why != nil:
		return why
	case encoded == nil:
		it.data = data
		return nil
	case data != nil:
		return wants("data_base64", "none beside data")
	}
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(raw, encoded)
	if err != nil {
		return wants("data_base64", "a string of base64")
	}
	it.data = f.payload(raw[:n], f.attrs["datacontenttype"])
	return nil
}

// known reports whether an error may name an attribute: the others' names are
// the sender's.
func known(name string) bool {
	switch name {
	case "specversion", "source", "id", "type", "time", "subject", "datacontenttype", "dataschema", "data", "data_base64":
		return true
	}
	return false
}

// attribute reads an attribute of the JSON format.
func (f *cloudFormat) attribute(name string, m *member) *reason {
	if !known(name) && (!attributeName(name) || m.kind == '{' || m.kind == '[') {
		return wants("extensions", "names of lower-case letters and digits, and strings, numbers or booleans")
	}
	if m.kind != '"' {
		if known(name) {
			return wants(name, "a string")
		}
		f.attrs[name] = string(m.value)
		return nil
	}
	s, ok, whole := unquote(make([]byte, 0, len(m.value)), m.inner())
	if !ok || !whole {
		return f.set(name, "\xff") // as broken as a byte could be
	}
	return f.set(name, string(s))
}

// set takes the value of an attribute.
func (f *cloudFormat) set(name, value string) *reason {
	f.attrs[name] = value
	field := name
	if !known(name) {
		field = "extensions"
	}
	switch {
	case !utf8.ValidString(value):
		return wants(field, "valid UTF-8")
	case strings.ContainsFunc(value, unicode.IsControl):
		return wants(field, "no control characters")
	default:
		return nil
	}
}

// finish makes the item from the attributes, all but its data.
func (f *cloudFormat) finish(it *item) *reason {
	out, missing := f.scope.scope(f.out, f.attrs)
	f.out = out
	if missing == nil {
		it.scope = out
	}
	for _, name := range [...]string{"source", "id", "type"} {
		if f.attrs[name] == "" {
			return wants(name, "a string that is not empty")
		}
	}
	switch {
	case f.attrs["specversion"] != "1.0":
		return wants("specversion", "1.0")
	case strings.Contains(f.attrs["source"], " "):
		return wants("source", "a URI reference, which has no space")
	case missing != nil:
		return missing
	}
	if s := f.attrs["time"]; s != "" {
		at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s))
		if err != nil || at.UnixMilli() < 0 || at.UnixMilli() > maxAt {
			return wants("time", "a time of RFC 3339, from 1970 to 9999")
		}
		if at.UnixMilli() > 0 {
			it.at = at
		}
	}
	it.id = []byte(cloudID(f.attrs["source"], f.attrs["id"]))
	it.name = []byte(f.attrs["type"])
	return nil
}

func cloudID(source, id string) string {
	joined := source + " " + id
	if len(joined) <= attend.MaxIDBytes {
		return joined
	}
	sum := sha256.Sum256([]byte(joined))
	return "sha256:" + hex.EncodeToString(sum[:]) // no space: it is nobody's joined id
}

// payload is an event's data made of bytes that have a media type.
func (f *cloudFormat) payload(b []byte, contentType string) json.RawMessage {
	media, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	words := err == nil && (charset == "" || charset == "utf-8" || charset == "us-ascii") && utf8.Valid(b)
	switch {
	case len(b) == 0:
		return nil
	case contentType == "", jsonMedia(media):
		return b // the engine says whether it is JSON
	case words && strings.HasPrefix(media, "text/"):
		return quoted(string(b))
	default:
		return quoted(map[string]string{"datacontenttype": contentType, "data_base64": base64.StdEncoding.EncodeToString(b)})
	}
}

func jsonMedia(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// quoted is the JSON of a string or of strings by name.
func quoted(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // cannot be: strings have a JSON form
	}
	return b
}

// A headerFormat reads a CloudEvent in binary mode: attributes are headers, the
// body is the data.
type headerFormat struct {
	cloudFormat
	header http.Header
}

func (f *headerFormat) read(b []byte, it *item) *reason {
	*it = item{}
	f.begin()
	var first *reason
	if media := f.header.Get("Content-Type"); media != "" {
		first = f.set("datacontenttype", media)
	}
	for key, values := range f.header {
		name, ok := strings.CutPrefix(strings.ToLower(key), "ce-")
		if !ok {
			continue
		}
		why := f.set(name, headerValue(values[0]))
		switch {
		case len(values) > 1 && known(name):
			why = wants(name, "it once, it comes twice")
		case len(values) > 1:
			why = wants("extensions", "each once, one comes twice")
		case !attributeName(name) || name == "data" || name == "datacontenttype":
			why = wants("extensions", "names of lower-case letters and digits, and none that the mode has another place for")
		}
		if why != nil && (first == nil || why.text < first.text) { // headers come in any order, the answer doesn't
			first = why
		}
	}
	if why := f.finish(it); first == nil {
		first = why
	}
	if first != nil {
		return first
	}
	it.data = f.payload(b, f.attrs["datacontenttype"])
	return nil
}

// headerValue is the text that a header stands for: without the quotes that
// it may have, and one round of percent-decoding.
func headerValue(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		var b strings.Builder
		for i := 1; i < len(s)-1; i++ {
			if s[i] == '\\' && i+1 < len(s)-1 {
				i++
			}
			b.WriteByte(s[i])
		}
		s = b.String()
	}
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				out = append(out, c[0])
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}
