package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// A row is in a list for each of the first levels of its scope's name: one of
// ops/db/main is in those of ops, ops/db and ops/db/main. A list is a number, by
// which an index holds its rows in the order of the log. So a reader of one
// prefix costs what it finds, however much else the log holds. A reader of a
// deeper prefix goes through the list of its first levels, and one of the prefix
// / or : through the whole log: what begins with a border has no level there.
const levels = 4

// classOf is what retention counts a type with: 0 decisions and letters, 1
// verdict rows, -1 for what is no type.
func classOf(t attend.RowType) int {
	switch t {
	case attend.RowDecision, attend.RowLetter:
		return 0
	case attend.RowVerdict:
		return 1
	}
	return -1
}

// classes are the types of each class.
func classes() [2][]attend.RowType {
	return [2][]attend.RowType{{attend.RowDecision, attend.RowLetter}, {attend.RowVerdict}}
}

func border(c byte) bool { return c == '/' || c == ':' }

// listsOf are the lists that a row is in, by level; 0 where its name has fewer.
func listsOf(t attend.RowType, s attend.Scope) (lists [levels]int64) {
	n := 0
	for i := 1; i <= len(s) && n < levels; i++ {
		if i == len(s) || border(s[i]) {
			lists[n] = list(t, string(s[:i]))
			n++
		}
	}
	return lists
}

// listFor is the shortest list that has all rows that p covers, and its level
// from 1. Level 0: it is the whole log.
func listFor(t attend.RowType, p attend.Prefix) (key int64, level int) {
	name := string(p)
	if name != "" && border(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	for i := 1; i <= len(name); i++ {
		if i == len(name) || border(name[i]) {
			if level++; level == levels {
				name = name[:i]
			}
		}
	}
	if level == 0 {
		return 0, 0
	}
	return list(t, name), level
}

// list is a number for a type and a name, never 0. That two lists have the same
// is harmless: rows are looked at one by one as well.
func list(t attend.RowType, name string) int64 {
	sum := sha256.Sum256([]byte(string(t) + "\x00" + name))
	n := int64(binary.BigEndian.Uint64(sum[:8]))
	if n == 0 {
		return 1
	}
	return n
}

// narrow writes what a row of type t that q wants must be, and returns its
// arguments, numbered from n. What no row can have is not sent to the server,
// which might refuse it.
func narrow(t attend.RowType, p attend.Prefix, n int) (where string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(n+len(args)-1)
	}
	if classOf(t) < 0 || !validText(string(p)) {
		return "false", nil
	}
	var b strings.Builder
	if key, level := listFor(t, p); level > 0 {
		b.WriteString("k" + strconv.Itoa(level) + " = " + arg(key))
	} else {
		b.WriteString("type = " + arg(string(t)))
	}
	switch {
	case p == "":
	case border(p[len(p)-1]):
		b.WriteString(" AND starts_with(scope, " + arg(string(p)) + ")")
	default:
		b.WriteString(" AND (scope = " + arg(string(p)) +
			" OR starts_with(scope, " + arg(string(p)+"/") + ") OR starts_with(scope, " + arg(string(p)+":") + "))")
	}
	return b.String(), args
}
