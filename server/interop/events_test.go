//go:build unix

package interop_test

import (
	"strings"
	"testing"
)

// A sent is one block of Server-Sent Events as it came; one that was cut is none.
type sent struct{ id, event, data string }

type sents []sent

// parse reads the text of a stream, as the standard has it. What is behind its
// last newline is taken for a line, too.
func parse(text string) sents {
	var out sents
	var now sent
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if now != (sent{}) {
				out = append(out, now)
			}
			now = sent{}
		case name == "id":
			now.id = value
		case name == "event":
			now.event = value
		case name == "data":
			now.data += value
		}
	}
	return out
}

// decisions are those that came.
func (s sents) decisions(t testing.TB) []decision {
	t.Helper()
	var out []decision
	for _, e := range s {
		if e.event != "decision" {
			continue
		}
		var d decision
		decode(t, e.data, &d)
		if e.id != d.Cursor {
			t.Errorf("the id of decision %s is %q, want its cursor %q", d.ID, e.id, d.Cursor)
		}
		out = append(out, d)
	}
	return out
}

// id is the last one, which a client asks with again.
func (s sents) id() string {
	last := ""
	for _, e := range s {
		if e.id != "" {
			last = e.id
		}
	}
	return last
}

// end is what the last event says, if that is the end.
func (s sents) end() string {
	if len(s) == 0 || s[len(s)-1].event != "end" {
		return ""
	}
	return s[len(s)-1].data
}
