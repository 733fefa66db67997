package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/day.ndjson anew")

// TestRecord makes the day of a few payloads, cut from the package, that have
// each thing that the program leaves out.
func TestRecord(t *testing.T) {
	const payloads, golden = "testdata/payloads.json", "testdata/day.ndjson"
	var got bytes.Buffer
	if err := run(payloads, "", &got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("run(%s) =\n%s\nwant\n%s", payloads, got.String(), want)
	}

	out := filepath.Join(t.TempDir(), "day.ndjson")
	if err := run(payloads, out, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(out); err != nil || !bytes.Equal(again, want) {
		t.Errorf("a second run wrote other bytes to its file (%v)", err)
	}
}

func TestRecordFails(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "day.ndjson")
	for _, c := range []struct{ name, index, want string }{
		{"not JSON", `[`, "unexpected end"},
		{"a body that is no object", `[{"name":"star","examples":[1]}]`, "star-0"},
		{"an event without a step", `[{"name":"strike","examples":[{"sender":{"login":"octocat"}}]}]`,
			"strike-0: the day has no step for strike"},
		{"a line without its value", `[{"name":"public","examples":[{"sender":{"login":"octocat"}}]}]`,
			"public-0: no value for {repository.full_name}"},
	} {
		in := filepath.Join(dir, "index.json")
		if err := os.WriteFile(in, []byte(c.index), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := run(in, out, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: run = %v, want an error with %q", c.name, err, c.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the output file is there", c.name)
		}
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"repository", `{"repository":{"name":"Hello-World","owner":{"login":"Codertocat"}}}`, "Codertocat/Hello-World"},
		{"organization's", `{"repository":{"name":"Hello-World","owner":{"login":"Codertocat"}},"organization":{"login":"Octocoders"}}`,
			"Octocoders/Hello-World"},
		{"told to an App", `{"repository":{"name":"Hello-World","owner":{"login":"Codertocat"}},"installation":{"id":1}}`,
			"app/Codertocat/Hello-World"},
		{"organization", `{"organization":{"login":"Octocoders"},"sender":{"login":"octocat"}}`, "Octocoders"},
		{"installation", `{"installation":{"account":{"login":"octocat"}},"sender":{"login":"Codertocat"}}`, "app/octocat"},
		{"sender", `{"sender":{"login":"octocat"}}`, "octocat"},
		{"nobody's", `{}`, "meta"},
	} {
		p := decode(t, "meta", c.body)
		if got := p.scope(); got != c.want {
			t.Errorf("%s: scope = %q, want %q", c.name, got, c.want)
		}
	}
}

// decode is the payload of one body.
func decode(t *testing.T, event, body string) payload {
	t.Helper()
	list, err := decodeIndex([]byte(`[{"name":"` + event + `","examples":[` + body + `]}]`))
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}
