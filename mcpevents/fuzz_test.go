package mcpevents

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParams decodes the params of a stream and of a poll: whatever comes is
// refused as invalid or understood, and what is understood is within bounds.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `"x"`, ``,
		`{"name":"alert"}`,
		`{"name":"alert","arguments":{"min":3},"cursor":"x:1","maxAgeMs":600000,"maxEvents":2}`,
		`{"name":"alert","arguments":null,"cursor":null}`,
		`{"name":"alert","cursor":5}`,
		`{"name":"alert","maxEvents":1e400,"maxAgeMs":-0}`,
		`{"name":"alert","maxEvents":9223372036854775808,"maxAgeMs":1.0}`,
		`{"Name":"alert","NAME":"alert"}`,
		`{"name":"\ud800"}`,
		`{"name":"alert","arguments":{"min":1,"min":2}}`,
	} {
		f.Add([]byte(seed))
	}
	l := rawLog(LogConfig{})
	s, err := NewServer(ServerConfig{Types: []Type{rawType(l)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := paramsOf(raw)
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		_ = json.Unmarshal(raw, &m)
		p.MaxEvents = m["maxEvents"]
		for _, mode := range []Mode{Poll, Push} {
			r, err := s.request(context.Background(), p, mode)
			if err != nil {
				e := s.wireErrorOf(err)
				if e.Code != -32602 && e.Code != -32023 || !json.Valid(e.Data) {
					t.Fatalf("request(%q) = %v, want InvalidParams or NotFound", raw, err)
				}
				continue
			}
			if r.limit < 1 || r.limit > maxBatch || len(r.cursor) > maxCursorBytes || r.maxAge < -1 || !json.Valid(r.sub.Arguments) {
				t.Fatalf("request(%q) = %+v, out of bounds", raw, r)
			}
			if s.notBefore(r.maxAge).Year() > 9999 {
				t.Fatalf("request(%q): floor in year %d", raw, s.notBefore(r.maxAge).Year())
			}
		}
	})
}

// FuzzForm encodes events: what is taken is one line of JSON, with the same data.
func FuzzForm(f *testing.F) {
	f.Add("id", []byte(`{"level":1}`), "k", "v")
	f.Add("é/.", []byte("{\n\t\"level\": 1, \"text\": \"\\u2028\xff\"}"), "io.modelcontextprotocol/subscriptionId", "x")
	f.Add("", []byte("{\"level\":1,\"t\":\"\u2028\"}\r\n"), "", "\x00")
	s, err := NewServer(ServerConfig{Types: []Type{rawType(rawLog(LogConfig{}))}})
	if err != nil {
		f.Fatal(err)
	}
	o := s.offer("alert")
	f.Fuzz(func(t *testing.T, id string, data []byte, key, value string) {
		v := Event{ID: id, Data: data, At: time.Unix(1793697305, 5), Meta: map[string]any{key: value}}
		got, err := o.form(&v)
		if err != nil {
			return
		}
		d := &delivery{o: o, tail: []byte(`"_meta":{"io.modelcontextprotocol/subscriptionId":7`)}
		params := bytes.Join(d.params(readEvent{got, Cursor(id), v.Meta}), nil)
		if bytes.ContainsAny(params, "\r\n") || !json.Valid(params) || !utf8.Valid(params) {
			t.Fatalf("params = %q, want one line of JSON", params)
		}
		var back struct {
			Data json.RawMessage `json:"data"`
			Meta map[string]any  `json:"_meta"`
		}
		if err := json.Unmarshal(params, &back); err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(data, &a) != nil || json.Unmarshal(back.Data, &b) != nil {
			t.Fatalf("data %q became %q", data, back.Data)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if !bytes.Equal(x, y) {
			t.Fatalf("data %q became %q", data, back.Data)
		}
		if n, ok := back.Meta["io.modelcontextprotocol/subscriptionId"].(float64); !ok || n != 7 {
			t.Fatalf("params = %q, want the stream's subscription id", params)
		}
	})
}
