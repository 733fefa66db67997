package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func alerts() []Type { return []Type{rawType(rawLog(LogConfig{}))} }

func rawList(t testing.TB, m rawMessage) listResult {
	t.Helper()
	var r listResult
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("got %.300s, want the result of a list", m.Text)
	}
	return r
}

func TestSE1DiscoverCarriesTheExtension(t *testing.T) {
	for _, compat := range []bool{false, true} {
		overBoth(t, ServerConfig{Compat: compat}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
			var r struct {
				ResultType   string `json:"resultType"`
				Capabilities struct {
					Extensions map[string]json.RawMessage `json:"extensions"`
					Events     json.RawMessage            `json:"events"`
				} `json:"capabilities"`
				Versions []string `json:"supportedVersions"`
			}
			m := call("d", "server/discover", "")
			if err := json.Unmarshal(m.Result, &r); err != nil {
				t.Fatalf("discover: %v in %s", err, m.Text)
			}
			if got := string(r.Capabilities.Extensions[Extension]); got != `{"listChanged":true}` {
				t.Errorf("extensions[%s] = %s, want the settings", Extension, got)
			}
			if got := string(r.Capabilities.Events); (got == `{"listChanged":true}`) != compat {
				t.Errorf("capabilities.events = %q with Compat %v", got, compat)
			}
			if r.ResultType != complete || !slices.Contains(r.Versions, firstStateless) {
				t.Errorf("discover = %s, want a complete result that names %s", m.Text, firstStateless)
			}
		})
	}
}

func TestSE5ServesWhoDidNotDeclareTheExtension(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		if r := rawList(t, call(1, "events/list", "")); len(r.Events) != 1 { // rawMeta declares nothing
			t.Errorf("list = %d types, want 1", len(r.Events))
		}
	})
}

func TestSE6SwitchedOff(t *testing.T) {
	s, err := NewServer(ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	p := rawDial(t, t.Context(), s, m)
	h := rawListen(t, s, m, HandlerConfig{})
	for _, method := range []string{methodList, methodPoll, methodStream, methodSubscribe, methodUnsubscribe} {
		wantError(t, p.call(method, method, `"name":"alert",`), -32601, "")
		st := rawPost(t, h.URL, rawCall(1, method, `"name":"alert",`))
		wantError(t, st.answer(), -32601, "")
		if st.resp.StatusCode != 404 {
			t.Errorf("%s: status %d, want 404", method, st.resp.StatusCode)
		}
	}
	if d := p.call("d", "server/discover", ""); json.Valid(d.Result) && strings.Contains(d.Text, Extension) {
		t.Errorf("discover = %s, want nothing of the extension", d.Text)
	}
}

func TestSE6WebhookIsNotThere(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		wantError(t, call(1, methodSubscribe, `"name":"alert",`), -32601, "")
		wantError(t, call(2, methodUnsubscribe, `"name":"alert",`), -32601, "")
	})
}

func TestSE6ModeSwitchedOff(t *testing.T) {
	overBoth(t, ServerConfig{Modes: []Mode{Poll}}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		if got := rawList(t, call(1, "events/list", "")).Events[0].Delivery; !slices.Equal(got, []Mode{Poll}) {
			t.Errorf("delivery = %v, want [poll]", got)
		}
		wantError(t, call(2, methodStream, `"name":"alert",`), -32026, `{"feature":"deliveryMode","value":"push"}`)
	})
}

func TestSE7ResultsAreComplete(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		for i, method := range []string{methodList, methodPoll} {
			var r struct {
				ResultType string `json:"resultType"`
			}
			m := call(i, method, `"name":"alert",`)
			if _ = json.Unmarshal(m.Result, &r); r.ResultType != complete {
				t.Errorf("%s: resultType = %q in %s", method, r.ResultType, m.Text)
			}
		}
	})
}

func TestSE8DeliveryIsOfTheThree(t *testing.T) {
	l := rawLog(LogConfig{})
	for _, bad := range []Type{
		{Name: "a", Backend: l, Modes: []Mode{}},
		{Name: "a", Backend: l, Modes: []Mode{"carrier-pigeon"}},
		{Name: "a", Backend: l, Modes: []Mode{Poll, Poll}},
		{Name: "a", Backend: l, Modes: []Mode{Webhook}}, // the server has none
	} {
		if _, err := NewServer(ServerConfig{Types: []Type{bad}}); err == nil {
			t.Errorf("NewServer took Modes %v", bad.Modes)
		}
	}
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		if got := rawList(t, call(1, methodList, "")).Events[0].Delivery; !slices.Equal(got, []Mode{Push, Poll}) {
			t.Errorf("delivery = %v, want [push poll]", got)
		}
	})
}

func TestSE9SchemasAreSchemas(t *testing.T) {
	l := rawLog(LogConfig{})
	for _, bad := range []string{`[]`, `"object"`, `{`, `{"type":5}`, `{"$ref":"https://example.org/other"}`} {
		for _, typ := range []Type{{Name: "a", Backend: l, Input: json.RawMessage(bad)}, {Name: "a", Backend: l, Payload: json.RawMessage(bad)}} {
			if _, err := NewServer(ServerConfig{Types: []Type{typ}}); err == nil {
				t.Errorf("NewServer took the schema %s", bad)
			}
		}
	}
	overBoth(t, ServerConfig{}, func() []Type { return []Type{{Name: "bare", Backend: l}} }, func(t *testing.T, _ *Server, call rawCaller) {
		d := rawList(t, call(1, methodList, "")).Events[0]
		if string(d.Input) != anyObject || string(d.Payload) != anyObject {
			t.Errorf("schemas of a type without = %s and %s, want %s", d.Input, d.Payload, anyObject)
		}
	})
}

func TestSE10ListIsStableAndPaged(t *testing.T) {
	var types []Type
	for _, i := range []int{3, 1, 4, 0, 2} {
		types = append(types, Type{Name: fmt.Sprint("t", i), Backend: rawLog(LogConfig{})})
	}
	overBoth(t, ServerConfig{PageSize: 2}, func() []Type { return types }, func(t *testing.T, s *Server, call rawCaller) {
		var names []string
		cursor := ""
		for page := 0; ; page++ {
			params := ""
			if cursor != "" {
				params = fmt.Sprintf(`"cursor":%q,`, cursor)
			}
			r := rawList(t, call(page, methodList, params))
			if r.TTL != 300000 || r.CacheScope != "private" {
				t.Errorf("page %d: ttlMs %d and cacheScope %q, want 300000 and private", page, r.TTL, r.CacheScope)
			}
			for _, d := range r.Events {
				names = append(names, d.Name)
			}
			if page == 0 { // a type that goes between two pages takes none of the others along
				s.Withdraw("t1")
			}
			if cursor = r.NextCursor; cursor == "" {
				break
			}
		}
		if got := fmt.Sprint(names); got != "[t0 t1 t2 t3 t4]" {
			t.Errorf("names = %v, want all in order", got)
		}
		for _, bad := range []string{`"cursor":"nonsense",`, `"cursor":"bm9uZQ",`} {
			wantError(t, call("bad", methodList, bad), -32602, "")
		}
	})
}

func TestSE11UnknownName(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		for i, method := range []string{methodPoll, methodStream} {
			wantError(t, call(i, method, `"name":"nope",`), -32023, `{"kind":"event"}`)
			wantError(t, call(i+10, method, `"name":5,`), -32602, "")
			wantError(t, call(i+20, method, ""), -32602, "")
		}
	})
}

func TestSE11HiddenIsUnknown(t *testing.T) {
	hidden := rawType(rawLog(LogConfig{}))
	hidden.Visible = func(context.Context, string) bool { return false }
	hidden.Check = func(context.Context, Subscription) error { return ErrForbidden }
	overBoth(t, ServerConfig{}, func() []Type { return []Type{hidden} }, func(t *testing.T, _ *Server, call rawCaller) {
		if r := rawList(t, call(1, methodList, "")); len(r.Events) != 0 {
			t.Errorf("list = %v, want nothing", r.Events)
		}
		wantError(t, call(2, methodPoll, `"name":"alert",`), -32023, `{"kind":"event"}`)
		wantError(t, call(3, methodStream, `"name":"alert",`), -32023, `{"kind":"event"}`)
	})
}

func TestSE12ArgumentsAgainstTheSchema(t *testing.T) {
	overBoth(t, ServerConfig{}, alerts, func(t *testing.T, _ *Server, call rawCaller) {
		for i, bad := range []string{`{"min":"x"}`, `{"min":-1}`, `{"other":1}`, `null`, `[]`, `"x"`, `{"min":1,"min":2}`} {
			for _, method := range []string{methodPoll, methodStream} {
				m := call(fmt.Sprint(method, i), method, `"name":"alert","arguments":`+bad+`,`)
				wantError(t, m, -32602, "")
				var data struct{ Path string }
				if _ = json.Unmarshal(m.Error.Data, &data); data.Path != "/arguments" {
					t.Errorf("%s: data = %s, want the path of the arguments", bad, m.Error.Data)
				}
			}
		}
	})
}

func TestSE13ModeThatIsNotOffered(t *testing.T) {
	types := func() []Type {
		a, b := rawType(rawLog(LogConfig{})), rawType(rawLog(LogConfig{}))
		a.Modes, b.Name, b.Modes = []Mode{Poll}, "other", []Mode{Push}
		return []Type{a, b}
	}
	overBoth(t, ServerConfig{}, types, func(t *testing.T, _ *Server, call rawCaller) {
		wantError(t, call(1, methodStream, `"name":"alert","arguments":5,`), -32026, `{"feature":"deliveryMode","value":"push"}`)
		wantError(t, call(2, methodPoll, `"name":"other",`), -32026, `{"feature":"deliveryMode","value":"poll"}`)
	})
}

func TestSE14Forbidden(t *testing.T) {
	types := func() []Type {
		a := rawType(rawLog(LogConfig{}))
		a.Check = func(_ context.Context, sub Subscription) error {
			if string(sub.Arguments) != `{"min":5}` {
				return &Error{Kind: Forbidden, Data: json.RawMessage(`{"reason":"too low"}`)}
			}
			return nil
		}
		return []Type{a}
	}
	overBoth(t, ServerConfig{}, types, func(t *testing.T, _ *Server, call rawCaller) {
		for i, method := range []string{methodPoll, methodStream} {
			wantError(t, call(i, method, `"name":"alert",`), -32024, `{"reason":"too low"}`)
		}
		if m := call(9, methodPoll, `"name":"alert","arguments":{ "min" : 5 },`); m.Error != nil {
			t.Errorf("permitted arguments: %s", m.Text)
		}
		if r := rawList(t, call(10, methodList, "")); len(r.Events) != 1 {
			t.Errorf("list = %d types, want the one that is forbidden", len(r.Events))
		}
	})
}

func TestOP49Precedence(t *testing.T) {
	types := func() []Type {
		a := rawType(rawLog(LogConfig{}))
		a.Modes = []Mode{Poll}
		a.Check = func(context.Context, Subscription) error { return ErrForbidden }
		return []Type{a}
	}
	overBoth(t, ServerConfig{MaxPolls: 1, Principal: func(context.Context) string { return "ada" }}, types, func(t *testing.T, _ *Server, call rawCaller) {
		wantError(t, call(1, methodStream, `"name":"nope","arguments":5,`), -32023, "")  // name before all
		wantError(t, call(2, methodStream, `"name":"alert","arguments":5,`), -32026, "") // mode before arguments
		wantError(t, call(3, methodPoll, `"name":"alert","arguments":5,`), -32602, "")   // arguments before permission
		wantError(t, call(4, methodPoll, `"name":"alert","cursor":5,`), -32602, "")      // and the other params
		for i := range 3 {
			wantError(t, call(5+i, methodPoll, `"name":"alert",`), -32024, "") // permission before quota
		}
	})
}
