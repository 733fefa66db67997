//go:build unix

package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A cloudCase is an event as the SDK is given it, and what is to become of its data.
type cloudCase struct {
	id, subject, media string
	data               any
	bytes              string // base64, in place of data
	want               string
}

var cloudCases = []cloudCase{
	{id: "object", data: map[string]any{"build": 7, "ok": true}, want: `{"build":7,"ok":true}`},
	{id: "list", data: []any{1, "two", nil}, want: `[1,"two",null]`},
	{id: "text", media: "text/plain", data: "it is green, größer", want: `"it is green, größer"`},
	{id: "bytes", media: "application/octet-stream", bytes: "aGk=", want: `{"data_base64":"aGk=","datacontenttype":"application/octet-stream"}`},
	{id: "with a subject", subject: "acme/api", data: map[string]any{}, want: `{}`},
	{id: "a/ü%?", data: map[string]any{"a": "b"}, want: `{"a":"b"}`},
}

// The CloudEvents SDK as a sender, in its three modes.
func TestCloudEventsSDK(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := runScript(t, "cloudevents.mjs", w.url+"/v1/ingest")
	s.ready(new(struct{}))
	at := time.Date(2026, 5, 6, 7, 8, 9, 123e6, time.UTC)
	type answer struct {
		Accepted, Duplicates int
		Rejected             []any
	}
	for _, mode := range []string{"binary", "structured", "batch"} {
		source := "/ci/" + mode
		var list []map[string]any
		var sent []cloudCase
		for _, c := range cloudCases {
			if mode == "binary" && c.id == "a/ü%?" {
				c.id = "a/b" // see below
			}
			e := map[string]any{"id": c.id, "source": source, "type": "com.example.build", "time": at.Format(time.RFC3339Nano), "traceparent": "00-ab-cd-01"}
			for name, v := range map[string]string{"subject": c.subject, "datacontenttype": c.media, "bytes": c.bytes} {
				if v != "" {
					e[name] = v
				}
			}
			if c.bytes == "" {
				e["data"] = c.data
			}
			list, sent = append(list, e), append(sent, c)
		}
		if mode == "batch" {
			var got answer
			s.do(mode, map[string]any{"events": list}, &got)
			if got.Accepted != len(list) || len(got.Rejected) != 0 {
				t.Errorf("batch = %+v, want %d accepted", got, len(list))
			}
		} else {
			for i, e := range list {
				var got answer
				s.do(mode, map[string]any{"event": e}, &got)
				if got.Accepted != 1 || len(got.Rejected) != 0 {
					t.Errorf("%s of %s = %+v, want 1 accepted", mode, sent[i].id, got)
				}
			}
		}
		w.holds(mode, source, at, sent)

		// What is sent again is known.
		var again answer
		if mode == "batch" {
			s.do(mode, map[string]any{"events": list[:2]}, &again)
			again.Duplicates--
		} else {
			s.do(mode, map[string]any{"event": list[0]}, &again)
		}
		if again.Accepted != 0 || again.Duplicates != 1 {
			t.Errorf("%s again = %+v, want duplicates", mode, again)
		}
	}

	// The SDK does not encode what is no ASCII in a header, as the binding wants
	// it, and Node.js sends it as Latin-1: it is told, and not taken for something else.
	var refused struct {
		Status int
		Detail string
	}
	s.do("binary", map[string]any{"event": map[string]any{"id": "ü", "source": "/ci", "type": "t", "data": map[string]any{}}}, &refused)
	if want := "no line was taken; line 1: id: want valid UTF-8"; refused.Status != 400 || refused.Detail != want {
		t.Errorf("binary of an id that is no ASCII = %+v, want 400 and %q", refused, want)
	}
}

// holds compares the events of a source's scopes with what was sent.
func (w *world) holds(mode, source string, at time.Time, sent []cloudCase) {
	w.t.Helper()
	have := map[string]json.RawMessage{}
	for _, scope := range []string{source, source + "/acme/api"} {
		r, err := http.NewRequestWithContext(w.t.Context(), "GET", w.url+"/v1/scopes?scope="+scope, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		var state struct {
			Open struct {
				Events []struct {
					ID, Name string
					At       int64
					Data     json.RawMessage
				}
			}
		}
		err = json.NewDecoder(res.Body).Decode(&state)
		res.Body.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range state.Open.Events {
			if e.Name != "com.example.build" || e.At != at.UnixMilli() {
				w.t.Errorf("%s: event %q is %s at %d, want com.example.build at %d", mode, e.ID, e.Name, e.At, at.UnixMilli())
			}
			have[fmt.Sprintf("%s in %s", e.ID, scope)] = e.Data
		}
	}
	for _, c := range sent {
		key := fmt.Sprintf("%s %s in %s", source, c.id, source)
		if c.subject != "" {
			key += "/" + c.subject
		}
		if got, ok := have[key]; !ok || !same(got, c.want) {
			w.t.Errorf("%s: event %s has the data %s, want %s", mode, key, got, c.want)
		}
		delete(have, key)
	}
	for key := range have {
		w.t.Errorf("%s: event %s was not sent", mode, key)
	}
}

// same compares JSON without regard to the order of members.
func same(got json.RawMessage, want string) bool {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		return false
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
