package mcpsource_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// What a run has seen is left to the next one that goes on where it stopped, and
// to no other: not to one from elsewhere, nor to two at a time.
func TestC2WhatARunLeaves(t *testing.T) {
	s := &script{batches: []mcpevents.Batch{{Cursor: "c1"}}, end: mcpevents.ErrEnded}
	src := source(t, s, mcpsource.Config{})
	runs := func(after attend.Cursor) *mcpevents.Seen {
		_, _ = all(t, src, after)
		return s.asked[len(s.asked)-1].Seen
	}
	first := runs("c0")
	if got := runs("c1"); got != first {
		t.Error("the run from c1 begins anew, and it goes on where the first has stopped")
	}
	if got := runs("c0"); got == first {
		t.Error("a run from c0 knows what the one to c1 has seen")
	}
	next, stop := iter.Pull2(src.Batches(t.Context(), "c1"))
	defer stop()
	_, _, _ = next()
	one := s.asked[len(s.asked)-1].Seen
	if other := runs("c1"); other == one {
		t.Error("two runs at a time share what they have seen")
	}
}

// A consumer that leaves with a batch in its hands, since it was not committed, leaves
// what the run had seen before it.
func TestC2WhatARunLeavesThatWasLeft(t *testing.T) {
	for _, cursor := range []mcpevents.Cursor{"c1", ""} {
		s := &script{batches: []mcpevents.Batch{{Events: []mcpevents.Event{{ID: "1", Name: "alert"}}, Cursor: cursor}}}
		src := source(t, s, mcpsource.Config{})
		for range src.Batches(t.Context(), "") {
			break
		}
		got, _ := all(t, src, "")
		if s.asked[1].Seen != s.asked[0].Seen {
			t.Errorf("cursor %q: the second run begins anew", cursor)
		}
		if len(got) != 1 || got[0].Gap != (cursor == "") {
			t.Errorf("cursor %q: %+v, want a gap only where the first batch can't come again", cursor, got)
		}
	}
}

// A dropping Follower drops an event, and ends.
type dropping struct{ reason mcpevents.Drop }

func (d dropping) Follow(_ context.Context, _ mcpevents.Subscription, f mcpevents.FollowConfig) iter.Seq2[mcpevents.Batch, error] {
	return func(yield func(mcpevents.Batch, error) bool) {
		f.OnTrouble(&mcpevents.DroppedError{Reason: d.reason})
		yield(mcpevents.Batch{}, mcpevents.ErrEnded)
	}
}

// C3: where a run ends before anything could tell of a dropped event, a batch of
// its own does. One of another type is none of ours, and
// what is not understood is no event.
func TestC3AGapAtTheEndOfARun(t *testing.T) {
	for reason, want := range map[mcpevents.Drop]int{mcpevents.DropOversize: 1, mcpevents.DropMalformed: 1, mcpevents.DropUnread: 1, mcpevents.DropUnknown: 0, mcpevents.DropForeign: 0} {
		got, err := all(t, source(t, dropping{reason}, mcpsource.Config{}), "c")
		if !errors.Is(err, mcpevents.ErrEnded) || len(got) != want || want == 1 && (!got[0].Gap || got[0].Cursor != "" || len(got[0].Events) != 0) {
			t.Errorf("Batches() = %+v, %v after a drop as %s, want %d batches with the gap alone", got, err, reason, want)
		}
	}
}
