package ingest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server/internal/ingest"
)

// one is the only event that a scope's window holds.
func one(t *testing.T, e *engine.Engine, scope attend.Scope) attend.Event {
	t.Helper()
	w, err := e.Window(t.Context(), scope)
	if err != nil || len(w.Events) != 1 {
		t.Fatalf("the window of %q has %d events, %v, want one", scope, len(w.Events), err)
	}
	return w.Events[0]
}

// What a CloudEvent becomes, in the modes that carry it: the same.
func TestCloudEventModes(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 0, 8, 123e6, time.UTC)
	attrs := [][2]string{
		{"specversion", "1.0"}, {"source", "https://ci.example/builds"}, {"id", "42"}, {"type", "build.finished"},
		{"subject", "main"}, {"time", "2026-03-02T08:00:08.1234Z"}, {"traceparent", "00-ab"}, {"datacontenttype", "application/json"},
	}
	object := make(map[string]any)
	header := make(http.Header)
	for _, a := range attrs {
		object[a[0]] = a[1]
		header.Set("Ce-"+a[0], a[1])
	}
	header.Del("Ce-datacontenttype")
	object["data"] = json.RawMessage(`{"tests":2}`)
	structured, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	object["data_base64"] = []byte(`{"tests":2}`)
	delete(object, "data")
	based, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	binary := []string{"Content-Type", "application/json"}
	for name := range header {
		binary = append(binary, name, header.Get(name))
	}
	for _, c := range []struct {
		mode, body string
		header     []string
	}{
		{"structured", string(structured), []string{"Content-Type", "application/cloudevents+json; charset=UTF-8"}},
		{"structured, base64", string(based), []string{"Content-Type", "application/cloudevents+json"}},
		{"batched", "[" + string(structured) + "]", []string{"Content-Type", "application/cloudevents-batch+json"}},
		{"binary", `{"tests":2}`, binary},
	} {
		t.Run(c.mode, func(t *testing.T) {
			e := newEngine(t, engineConfig())
			in := newIngest(t, ingest.Config{Engine: e})
			if a := post(t, in.Bodies(), strings.NewReader(c.body), c.header...); a.status != 200 || a.Accepted != 1 {
				t.Fatal(a)
			}
			v := one(t, e, "https://ci.example/builds/main")
			if v.ID != "https://ci.example/builds 42" || v.Name != "build.finished" || !v.At.Equal(at) || string(v.Data) != `{"tests":2}` || v.Text != "" {
				t.Errorf("event = %+v", v)
			}
		})
	}
}

// What data that is not JSON becomes.
func TestCloudEventData(t *testing.T) {
	for _, c := range []struct{ media, body, want string }{
		{"", ``, `{}`},
		{"application/json", ``, `{}`},
		{"application/json", ` [1, 2] `, `[1,2]`},
		{"application/vnd.x+json; charset=utf-8", `"a"`, `"a"`},
		{"text/plain", "a <b> \"c\"\n", `"a <b> \"c\"\n"`},
		{"text/plain; charset=latin1", "\xe9", `{"data_base64":"6Q==","datacontenttype":"text/plain; charset=latin1"}`},
		{"text/plain", "\xe9", `{"data_base64":"6Q==","datacontenttype":"text/plain"}`},
		{"image/png", "\x89PNG", `{"data_base64":"iVBORw==","datacontenttype":"image/png"}`},
		{"/", "x", `{"data_base64":"eA==","datacontenttype":"/"}`},
	} {
		e := newEngine(t, engineConfig())
		in := newIngest(t, ingest.Config{Engine: e})
		a := post(t, in.Bodies(), strings.NewReader(c.body), "Content-Type", c.media,
			"Ce-Specversion", "1.0", "Ce-Source", "s", "Ce-Id", "1", "Ce-Type", "t")
		if a.status != 200 {
			t.Errorf("%s: %v", c.media, a)
			continue
		}
		if got := string(one(t, e, "s").Data); got != c.want {
			t.Errorf("%s %q: data = %s, want %s", c.media, c.body, got, c.want)
		}
	}
}

// Two events are two, however source and id meet; what is too long is hashed.
func TestCloudEventIDs(t *testing.T) {
	e := newEngine(t, engineConfig())
	in := newIngest(t, ingest.Config{Engine: e, Scope: "{tenant}"})
	long := strings.Repeat("a", 255)
	pairs := [][2]string{
		{"a", "b c"}, {"a", "b  c"}, {"a", " b c"}, {"a/b", "c"}, {"a", "/b c"}, {"a%20b", "c"},
		{long, "1"}, {long, "2"}, {long + "1", "x"}, {long, "1x"}, {"a", long},
	}
	var b strings.Builder
	for i, p := range pairs {
		b.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		fmt.Fprintf(&b, `{"specversion":"1.0","source":%q,"id":%q,"type":"t","tenant":"acme"}`, p[0], p[1])
	}
	a := post(t, in.Bodies(), strings.NewReader(b.String()+"]"), "Content-Type", "application/cloudevents-batch+json")
	if a.Accepted != len(pairs) {
		t.Errorf("%v, want %d accepted", a, len(pairs))
	}
	hashed := 0
	for _, id := range held(t, e, "acme") {
		if hex, ok := strings.CutPrefix(id, "sha256:"); ok && len(hex) == 64 {
			hashed++
		} else if !strings.Contains(id, " ") {
			t.Errorf("id %q has neither the space nor the hash", id)
		}
	}
	if hashed != 5 {
		t.Errorf("%d ids are hashed, want 5", hashed)
	}
	if a := post(t, in.Bodies(), strings.NewReader(b.String()+"]"), "Content-Type", "application/cloudevents-batch+json"); a.Duplicates != len(pairs) {
		t.Errorf("sent again: %v, want %d duplicates", a, len(pairs))
	}
}

// The scope is made of the template; what it lacks rejects the event.
func TestCloudEventScope(t *testing.T) {
	for _, c := range []struct{ template, event, scope, why string }{
		{"", `"subject":"x"`, "s/x", ""},
		{"", `"subject":null`, "s", ""},
		{"", `"subject":""`, "s", ""},
		{"{source}", `"subject":"x"`, "s", ""},
		{"t/{type}/{level}/{ok}!", `"level":3,"ok":true`, "t/t/3/true!", ""},
		{"{tenant}", `"x":"y"`, "", "scope: want the attribute tenant of the event, its scope is made from it"},
		{"{tenant}", `"tenant":"` + strings.Repeat("a", 513) + `"`, "", "scope: want 1 to 512 bytes"},
		{"{tenant}", `"tenant":"$attend/x"`, "", "scope: want one that you may bring events into"},
		{"{tenant}", `"tenant":"a","tenant":"b"`, "", "extensions: want each once, one comes twice"},
	} {
		e := newEngine(t, engineConfig())
		in := newIngest(t, ingest.Config{Engine: e, Scope: c.template})
		a := post(t, in.Bodies(), strings.NewReader(`{"specversion":"1.0","source":"s","id":"1","type":"t",`+c.event+`}`), "Content-Type", "application/cloudevents+json")
		switch {
		case c.why != "":
			if len(a.Rejected) != 1 || a.Rejected[0].Error != c.why {
				t.Errorf("%s of %.40s: %v, want %s", c.template, c.event, a, c.why)
			}
		case a.Accepted != 1 || len(held(t, e, attend.Scope(c.scope))) != 1:
			t.Errorf("%s of %s: %v, want it in %q", c.template, c.event, a, c.scope)
		}
	}
}

// Header values are unquoted and percent-decoded once.
func TestCloudEventHeaders(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"a", "a"}, {"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"}, {`"a \"b\" \\c"`, `a "b" \c`}, {"%2525", "%25"}, {"100%", "100%"}, {"%zz%4", "%zz%4"}, {`"`, `"`},
	} {
		e := newEngine(t, engineConfig())
		in := newIngest(t, ingest.Config{Engine: e})
		a := post(t, in.Bodies(), strings.NewReader(""), "Content-Type", "",
			"Ce-Specversion", "1.0", "Ce-Source", "s", "Ce-Id", c.value, "Ce-Type", "t")
		if a.status != 200 {
			t.Errorf("%s: %v", c.value, a)
		} else if got := one(t, e, "s").ID; got != "s "+c.want {
			t.Errorf("id %s = %q, want %q", c.value, got, "s "+c.want)
		}
	}
}
