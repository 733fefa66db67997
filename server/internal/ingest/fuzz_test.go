package ingest_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/attend-go/attend/server/internal/ingest"
)

// seeds are lines that go different ways through the decoder.
var seeds = []string{
	``, `{}`, `[`, `{"scope":"a","id":"1","name":"n"}`, ` { "scope" : "a" , "flush" : true } `, `{"scope":"a","end":true}`,
	`{"scope":"a","id":"\u00e9\ud83d\ude00\n","name":"n","at":1,"data":{"x":[1,-2.5e+3,null,true,false,"\\\""]},"text":"\ud800"}`,
	`{"\u0069d":"1","scope":"a","name":"n","z":[}` + "\n" + `{"id":"1","id":"2"}`, "\ufeff{}\r\n\r\n{", `{"scope":"a","id":1e5,"name":null}`,
	`{"scope":"$attend/x","id":"1","name":"n"}`, "{\"scope\":\"\xff\"}", `{"scope":"a","id":"1","name":"n","data":tru}`, `{"a":"\ud800\udc00","b":01}`,
	`{"scope":"a","id":"1","name":"n","z":[}}`, `{"scope":"a","id":"1","name":"n","z":"\q"}`, `{"scope":"a","id":"\u12g4","name":"n"}`,
}

// Whatever comes: no panic, each line that is not blank is counted once, nothing
// but JSON is taken, and what is taken is what package json would read.
func FuzzLines(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 100)
	}
	f.Add([]byte(strings.Join(seeds, "\n")), 1000)
	f.Fuzz(func(t *testing.T, body []byte, limit int) {
		limit = 1 + max(0, limit%2000)
		e := newEngine(t, engineConfig())
		w := &watched{Engine: e}
		in := newIngest(t, ingest.Config{Engine: w, MaxLine: limit, MaxRejected: 1 << 20})
		a := post(t, in.Bodies(), bytes.NewReader(body))
		want, numbers := 0, []int{}
		good := make(map[string]json.RawMessage) // ids to lines
		for i, l := range bytes.Split(body, []byte("\n")) {
			long := len(l) > limit // nobody looks whether it is blank
			if i == 0 {
				l = bytes.TrimPrefix(l, []byte("\ufeff"))
			}
			if len(bytes.Trim(l, " \t\r")) == 0 && !long {
				continue
			}
			want++
			var v struct{ ID string }
			if json.Unmarshal(l, &v) == nil {
				good[v.ID] = l
			}
			numbers = append(numbers, i+1)
		}
		if got := a.Accepted + a.Duplicates + len(a.Rejected); got != want {
			t.Fatalf("%d lines counted, want %d: %v", got, want, a)
		}
		for _, r := range a.Rejected {
			if i := slices.Index(numbers, r.Line); i < 0 {
				t.Fatalf("line %d is rejected, which is blank, not there, or rejected before", r.Line)
			} else {
				numbers = slices.Delete(numbers, i, i+1)
			}
			if r.Error == "" {
				t.Error("a rejection without a reason")
			}
		}
		for _, list := range w.lists {
			for _, p := range list {
				left := 0
				for i, v := range p.Events {
					if left < len(p.Left) && p.Left[left].Index == i {
						left++
						continue
					}
					if l, ok := good[v.ID]; !ok || !json.Valid(l) {
						t.Errorf("an event was taken from a line that package json does not read: %q", v.ID)
					}
				}
			}
		}
	})
}

// The same of JSON bodies, which are cut by their brackets: whatever package
// json takes for a list is taken item by item.
func FuzzItems(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte("[" + s + "," + s + "]"))
	}
	f.Add([]byte(`[{"scope":"a"},"]",[[]],1, 2 ,"\"",{"a":"}"}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := newIngest(t, ingest.Config{MaxRejected: 1 << 20})
		a := post(t, in.Bodies(), bytes.NewReader(body), "Content-Type", "application/json")
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || list == nil {
			return
		}
		if got := a.Accepted + a.Duplicates + len(a.Rejected); got != len(list) {
			t.Fatalf("%d items counted, want %d: %v", got, len(list), a)
		}
	})
}

// CloudEvents of any bytes: no panic, one answer.
func FuzzCloudEvents(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","source":"/ci","id":"1","type":"a","data":{"b":1},"time":"2026-01-01T00:00:00Z","x":1}`), "a", "application/json")
	f.Add([]byte(`{"specversion":"1.0","source":"/ci","id":"1","type":"a","data_base64":"e30="}`), "%41\"", "text/plain; charset=x")
	f.Fuzz(func(t *testing.T, body []byte, id, media string) {
		in := newIngest(t, ingest.Config{})
		a := post(t, in.Bodies(), bytes.NewReader(body), "Content-Type", "application/cloudevents+json")
		if n := a.Accepted + len(a.Rejected); n != 1 && a.status == 200 {
			t.Errorf("%v, want one line", a)
		}
		if strings.HasPrefix(media, "application/") {
			return // another mode's
		}
		a = post(t, in.Bodies(), bytes.NewReader(body), "Content-Type", media, "Ce-Id", id, "Ce-Specversion", "1.0", "Ce-Source", "s", "Ce-Type", "t")
		if n := a.Accepted + len(a.Rejected); n != 1 {
			t.Errorf("%v, want one line", a)
		}
	})
}
