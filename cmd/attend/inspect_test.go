package main

import (
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
	"github.com/attend-go/attend/server/inspect"
)

// Nothing that a server or a store says can move a terminal's cursor.
func TestScopeTextIsPlain(t *testing.T) {
	const bad = "\x1b[2J\r\u202e\n"
	w := attend.Window{Reason: bad, Events: []attend.Event{{ID: bad, Name: bad, Text: bad, Kind: bad}}}
	x := inspect.Scope{Scope: bad, Open: w, Held: &w, Slot: &machine.Slot{Window: w, Attempts: 1, Message: bad}}
	x.Recent = []attend.Verdict{{Judgment: attend.Judgment{Route: bad}, Reason: bad}}
	text := scopeText(x, time.UTC)
	if strings.ContainsAny(text, "\x1b\r\u202e") || strings.Count(text, "\n") != 11 {
		t.Errorf("the text is %q", text)
	}
}
