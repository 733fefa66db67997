package main

import (
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

// noActs is what both a replay and a server warn of.
const noActs = "no event is an act, so nothing settles a window but a line that flushes or ends it; see --kinds"

// readKinds reads the table that --kinds names: JSON in place when it begins with
// a brace, else a file of JSON or YAML, and no name at all when it is empty. All
// other names are of the default kind.
func readKinds(source, other string) (*kindTable, error) {
	t := &kindTable{
		exact: make(map[string]attend.Kind), prefixes: make(map[string]attend.Kind), other: attend.Kind(other),
	}
	if source == "" {
		return t, nil
	}
	list, file, err := readWords(source)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		if err := t.add(w); err != nil {
			if file != "" {
				err = inFile(file, err)
			}
			return nil, err
		}
	}
	for prefix := range t.prefixes {
		t.lengths = append(t.lengths, len(prefix))
	}
	slices.Sort(t.lengths)
	slices.Reverse(t.lengths)
	t.lengths = slices.Compact(t.lengths)
	return t, nil
}

func (t *kindTable) add(w word) error {
	k := attend.Kind(w.value)
	if !k.Valid() {
		return w.at("unknown kind %q, want %s", w.value, inWords(kindNames()))
	}
	if prefix, ok := strings.CutSuffix(w.key, "*"); ok {
		t.prefixes[prefix] = k
		return nil
	}
	if w.key == "" {
		return w.at("want the name of an event")
	}
	t.exact[w.key] = k
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

// kindNames are the six kinds.
func kindNames() []string {
	var names []string
	for _, k := range attend.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// inWords lists names as a sentence does.
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
