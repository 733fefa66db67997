package attend_test

import (
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestReasons(t *testing.T) {
	want := []struct {
		reason attend.Reason
		wire   string
		wait   bool
	}{
		{attend.ReasonForced, "forced", false},
		{attend.ReasonFlush, "flush", false},
		{attend.ReasonHorizon, "horizon", false},
		{attend.ReasonOverflow, "overflow", false},
		{attend.ReasonSize, "size", false},
		{attend.ReasonAge, "age", true},
		{attend.ReasonClosing, "closing", true},
		{attend.ReasonContinuous, "continuous", true},
		{attend.ReasonPassive, "passive", true},
	}
	reasons := attend.Reasons()
	if len(reasons) != len(want) {
		t.Fatalf("Reasons() = %q, want nine", reasons)
	}
	for i, w := range want {
		if reasons[i] != w.reason || string(w.reason) != w.wire {
			t.Errorf("Reasons()[%d] = %q, want %q", i, reasons[i], w.wire)
		}
		if w.reason.MayWait() != w.wait {
			t.Errorf("Reason(%q).MayWait() = %v, want %v", w.reason, w.reason.MayWait(), w.wait)
		}
	}
	for _, r := range []attend.Reason{"", "Age"} {
		if r.MayWait() {
			t.Errorf("Reason(%q).MayWait() = true, want false", r)
		}
	}
	reasons[0] = "changed"
	if got := attend.Reasons()[0]; got != attend.ReasonForced {
		t.Errorf("Reasons()[0] became %q with a caller's slice, want a slice of its own", got)
	}
}
