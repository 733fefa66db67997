package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

func TestDecodeLine(t *testing.T) {
	at := time.UnixMilli(1772438400000)
	for _, test := range []struct {
		name, in string
		want     line
		field    string // of the error; empty: there is none
	}{
		{"event", `{"scope":"s","id":"1","at":1772438400000,"name":"n","text":"t","data":[1, 2]}`,
			line{verb: verbEvent, scope: "s", at: at, event: attend.Event{ID: "1", At: at, Name: "n", Text: "t", Data: json.RawMessage(`[1, 2]`)}}, ""},
		{"no time", `{"scope":"s","id":"1","name":"n"}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n"}}, ""},
		{"time 0", `{"scope":"s","id":"1","name":"n","at":0}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n"}}, ""},
		{"null stands for nothing, but in data", `{"scope":"s","id":"1","name":"n","at":null,"text":null,"flush":null,"data":null}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n", Data: json.RawMessage(`null`)}}, ""},
		{"the last time that there is", `{"scope":"s","id":"1","name":"n","at":253402300799999}`,
			line{verb: verbEvent, scope: "s", at: time.UnixMilli(maxAt), event: attend.Event{ID: "1", Name: "n", At: time.UnixMilli(maxAt)}}, ""},
		{"what is attend's to set", `{"scope":"s","id":"1","name":"n","source":"x","kind":"flush","more":{}}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n"}}, ""},
		{"names by their spelling", `{"scope":"s","id":"1","name":"n","ID":"2","Text":"x"}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n"}}, ""},
		{"the last of two", `{"scope":"s","id":"1","id":"2","name":"n"}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "2", Name: "n"}}, ""},
		{"escapes", `{"scope":"s","id":"\ud83d\ude00\u00e9\\ud800\ufffd","name":"n","text":"\ud800"}`,
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "😀é\\ud800\ufffd", Name: "n", Text: "\ufffd"}}, ""},
		{"a broken byte in text", "{\"scope\":\"s\",\"id\":\"1\",\"name\":\"n\",\"text\":\"\xff\"}",
			line{verb: verbEvent, scope: "s", event: attend.Event{ID: "1", Name: "n", Text: "\ufffd"}}, ""},
		{"flush", `{"scope":"s","flush":true}`, line{verb: verbFlush, scope: "s"}, ""},
		{"end with a time", `{"scope":"s","end":true,"flush":false,"at":1772438400000}`, line{verb: verbEnd, scope: "s", at: at}, ""},

		{"no JSON", `scope`, line{}, "line"},
		{"two objects", `{"scope":"s","flush":true}{}`, line{}, "line"},
		{"null", `null`, line{}, "line"},
		{"a list", `[]`, line{}, "line"},
		{"nothing", ``, line{}, "line"},
		{"no scope", `{"id":"1","name":"n"}`, line{}, "scope"},
		{"scope of a number", `{"scope":1,"flush":true}`, line{}, "scope"},
		{"scope with a control character", `{"scope":"a\nb","flush":true}`, line{}, "scope"},
		{"scope with a broken byte", "{\"scope\":\"\xff\",\"flush\":true}", line{}, "scope"},
		{"id with a lone surrogate", `{"scope":"s","id":"\ud83dx","name":"n"}`, line{}, "id"},
		{"id with half a pair at its end", `{"scope":"s","id":"\ud83d","name":"n"}`, line{}, "id"},
		{"id with the wrong half", `{"scope":"s","id":"\ude00\ud83d","name":"n"}`, line{}, "id"},
		{"name of a list", `{"scope":"s","id":"1","name":[]}`, line{}, "name"},
		{"text of an object", `{"scope":"s","id":"1","name":"n","text":{}}`, line{}, "text"},
		{"time in words", `{"scope":"s","id":"1","name":"n","at":"now"}`, line{}, "at"},
		{"time with a fraction", `{"scope":"s","id":"1","name":"n","at":1.5}`, line{}, "at"},
		{"time before 1970", `{"scope":"s","id":"1","name":"n","at":-1}`, line{}, "at"},
		{"time after 9999", `{"scope":"s","id":"1","name":"n","at":253402300800000}`, line{}, "at"},
		{"flush of 1", `{"scope":"s","flush":1}`, line{}, "flush"},
		{"flush and end", `{"scope":"s","flush":true,"end":true}`, line{}, "end"},
		{"flush and an event", `{"scope":"s","flush":true,"id":"1","name":"n"}`, line{}, "id"},
		{"end and data", `{"scope":"s","end":true,"data":{}}`, line{}, "data"},
		{"end and data of null", `{"scope":"s","end":true,"data":null}`, line{}, "data"},
	} {
		got, err := decodeLine([]byte(test.in))
		field := ""
		if e, ok := errors.AsType[*attend.InvalidError](err); ok {
			field = e.Field
		}
		if field != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%s: decodeLine error %v, want one on %q", test.name, err, test.field)
		}
		if err == nil && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: decodeLine = %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestDecodeLineKeepsNothingOfItsInput(t *testing.T) {
	b := []byte(`{"scope":"s","id":"1","name":"n","text":"text","data":{"a":1}}`)
	l, err := decodeLine(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = '#'
	}
	if l.scope != "s" || l.event.Text != "text" || string(l.event.Data) != `{"a":1}` {
		t.Errorf("the line changed with its input: %+v", l)
	}
}

// FuzzDecodeLine: a line is refused with an error of its own kind, or what was
// read of it can be written and read again.
func FuzzDecodeLine(f *testing.F) {
	for _, seed := range []string{
		`{"scope":"s","id":"1","at":1772438400000,"name":"n","text":"t","data":{"a":[1,2.50,"\u0000"]}}`,
		`{"scope":"s","flush":true}`,
		`{"scope":"s","end":true,"at":5}`,
		`{"scope":"\ud83d\ude00","id":"\ufffd","name":"\\ud800","data":null}`,
		`{"scope":"s","id":"\ud800","name":"n"}`,
		`{"scope":"s","id":null,"at":0.5}`,
		"{\"scope\":\"s\",\"id\":\"\xff\"}",
		`[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLine(b)
		if err != nil {
			if _, ok := errors.AsType[*attend.InvalidError](err); !ok {
				t.Fatalf("decodeLine(%q): error %v, want an InvalidError", b, err)
			}
			return
		}
		if err := l.scope.Check(); err != nil {
			t.Fatalf("decodeLine(%q) took the scope %q", b, l.scope)
		}
		if !utf8.ValidString(l.event.ID) || !utf8.ValidString(l.event.Name) || !utf8.ValidString(l.event.Text) {
			t.Fatalf("decodeLine(%q) took broken text: %+v", b, l.event)
		}
		if l.verb != verbEvent && !reflect.DeepEqual(l.event, attend.Event{}) {
			t.Fatalf("decodeLine(%q) read an event beside %s", b, l.verb)
		}
		back, err := decodeLine(encodeLine(t, l))
		if err != nil || !reflect.DeepEqual(compacted(t, back), compacted(t, l)) {
			t.Fatalf("decodeLine(%q) = %+v, and read again %+v, %v", b, l, back, err)
		}
	})
}

func encodeLine(t *testing.T, l line) []byte {
	t.Helper()
	w := map[string]any{"scope": l.scope}
	if !l.at.IsZero() {
		w["at"] = l.at.UnixMilli()
	}
	switch l.verb {
	case verbEvent:
		w["id"], w["name"], w["text"] = l.event.ID, l.event.Name, l.event.Text
		if l.event.Data != nil {
			w["data"] = l.event.Data
		}
	default:
		w[string(l.verb)] = true
	}
	b, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compacted is l with data that does not depend on how it was written.
func compacted(t *testing.T, l line) line {
	t.Helper()
	if l.event.Data != nil {
		var b bytes.Buffer
		if err := json.Compact(&b, l.event.Data); err != nil {
			t.Fatal(err)
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, b.Bytes())
		l.event.Data = escaped.Bytes()
	}
	return l
}
