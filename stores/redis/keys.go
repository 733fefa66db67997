package redis

import (
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// rowTypes are the types of rows, in the order in which scripts know them.
var rowTypes = [...]attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}

// classes are what retention counts together, as places in rowTypes.
var classes = [...][]int{{0, 1}, {2}}

// marks name, for each class, where a head keeps what was trimmed.
var marks = []string{"trimmed", "trimmed:verdict"}

// typeOf is a type's place in rowTypes, -1 for one that isn't known.
func typeOf(t attend.RowType) int { return slices.Index(rowTypes[:], t) }

// A keyspace makes the names of keys: the prefix of a store.
type keyspace string

func (k keyspace) head() string                { return string(k) + "head" }
func (k keyspace) noted(call string) string    { return string(k) + "did:" + call }
func (k keyspace) due() string                 { return string(k) + "due" }
func (k keyspace) scope(s attend.Scope) string { return string(k) + "s:" + string(s) }
func (k keyspace) log(t int) string            { return string(k) + "log:" + string(rowTypes[t]) }
func (k keyspace) ids(t int) string            { return string(k) + "id:" + string(rowTypes[t]) }
func (k keyspace) list(t int, level string) string {
	return string(k) + "ix:" + string(rowTypes[t]) + ":" + level
}

func (k keyspace) logs() []string {
	return []string{k.log(0), k.log(1), k.log(2)}
}

func (k keyspace) eventHead() string               { return string(k) + "events:head" }
func (k keyspace) events() string                  { return string(k) + "events" }
func (k keyspace) eventList(s attend.Scope) string { return string(k) + "ex:" + string(s) }
func (k keyspace) eventIDs(s attend.Scope) string  { return string(k) + "ei:" + string(s) }
func eventMark(s attend.Scope) string              { return "trimmed:" + string(s) }

// mark is the key of the mark that belongs to a head; see lua/common.lua.
func mark(head string) string { return strings.TrimSuffix(head, "head") + "mark" }

// trial are keys for lua/rights.lua.
func (k keyspace) trial() []string {
	var out []string
	for _, kind := range []string{"h", "z", "x", "l", "s"} {
		out = append(out, string(k)+"try:"+kind)
	}
	return out
}

// maxLevels is how many levels of a scope have a list of their rows.
const maxLevels = 8

// levels are the beginnings of a scope that end before a / or a :, and the
// scope itself, from short to long: the first few of them.
func levels(s attend.Scope) []string {
	var out []string
	for i := 1; i <= len(s) && len(out) < maxLevels; i++ {
		if i == len(s) || border(s[i]) {
			out = append(out, string(s[:i]))
		}
	}
	return out
}

// levelOf is the longest level that every scope has which p covers. Empty:
// there is none, and all rows have to be read, as for the prefixes / and : too,
// since a scope that begins with a border has no level there.
func levelOf(p attend.Prefix) string {
	// What a prefix with a border at its end covers goes on behind that; so the
	// level before it is one of the scope's.
	if p != "" && border(p[len(p)-1]) {
		p = p[:len(p)-1]
	}
	if l := levels(attend.Scope(p)); len(l) > 0 {
		return l[len(l)-1]
	}
	return ""
}

func border(c byte) bool { return strings.IndexByte("/:", c) >= 0 }
