package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// A kindTable says by its name which kind an event has.
type kindTable struct {
	exact    map[string]attend.Kind
	prefixes map[string]attend.Kind
	lengths  []int // of the prefixes, the longest first, each once
	other    attend.Kind
}

// loadKinds reads the table that --kinds names: JSON in place when it begins with
// a brace, else a file, and no name at all when it is empty.
func loadKinds(source, other string) (*kindTable, error) {
	t := &kindTable{
		exact: make(map[string]attend.Kind), prefixes: make(map[string]attend.Kind), other: attend.Kind(other),
	}
	if !t.other.Valid() {
		return nil, fmt.Errorf("--default-kind: unknown kind %q, want %s", other, kindNames())
	}
	if source == "" {
		return t, nil
	}
	text, where := []byte(source), "--kinds"
	if !strings.HasPrefix(strings.TrimSpace(source), "{") {
		b, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("--kinds: %w", err)
		}
		text, where = b, "--kinds "+source
	}
	if err := t.read(text); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return t, nil
}

// read adds the names of a JSON object, token by token, so that a name that is
// there twice is found.
func (t *kindTable) read(text []byte) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !json.Valid(text) || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return fmt.Errorf("want one JSON object of names and kinds")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token() // the brace
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		var kind any
		if err := d.Decode(&kind); err != nil {
			return err
		}
		if err := t.add(name, kind); err != nil {
			return err
		}
	}
	for prefix := range t.prefixes {
		t.lengths = append(t.lengths, len(prefix))
	}
	slices.Sort(t.lengths)
	slices.Reverse(t.lengths)
	t.lengths = slices.Compact(t.lengths)
	return nil
}

func (t *kindTable) add(name string, kind any) error {
	s, ok := kind.(string)
	if !ok {
		return fmt.Errorf("%q: want a kind as a string: %s", name, kindNames())
	}
	k := attend.Kind(s)
	if !k.Valid() {
		return fmt.Errorf("%q: unknown kind %q, want %s", name, s, kindNames())
	}
	to, key := t.exact, name
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		to, key = t.prefixes, prefix
	} else if name == "" {
		return fmt.Errorf("%q: want the name of an event", name)
	}
	if _, twice := to[key]; twice {
		return fmt.Errorf("%q: named twice", name)
	}
	to[key] = k
	return nil
}

// kind is an [attend.KindFunc]: the longest match wins, and what matches nothing
// has the default kind.
func (t *kindTable) kind(e attend.Event) attend.Kind {
	if k, ok := t.exact[e.Name]; ok {
		return k
	}
	for _, n := range t.lengths {
		if n > len(e.Name) {
			continue
		}
		if k, ok := t.prefixes[e.Name[:n]]; ok {
			return k
		}
	}
	return t.other
}

// wakes reports whether any event can call for the agent.
func (t *kindTable) wakes() bool {
	for _, of := range []map[string]attend.Kind{t.exact, t.prefixes, {"": t.other}} {
		for _, k := range of {
			if k.Act() {
				return true
			}
		}
	}
	return false
}

// kindNames lists the six kinds for people.
func kindNames() string {
	var names []string
	for _, k := range attend.Kinds() {
		names = append(names, string(k))
	}
	return inWords(names)
}

// inWords lists names, at least two, as a sentence does.
func inWords(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
