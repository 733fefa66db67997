package attend_test

import (
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestKinds(t *testing.T) {
	want := []struct {
		kind attend.Kind
		wire string
		act  bool
	}{
		{attend.KindClosing, "closing", true},
		{attend.KindFlush, "flush", true},
		{attend.KindContinuous, "continuous", true},
		{attend.KindPassive, "passive", true},
		{attend.KindConsequence, "consequence", false},
		{attend.KindContext, "context", false},
	}
	kinds := attend.Kinds()
	if len(kinds) != len(want) {
		t.Fatalf("Kinds() = %q, want six", kinds)
	}
	for i, w := range want {
		if kinds[i] != w.kind || string(w.kind) != w.wire {
			t.Errorf("Kinds()[%d] = %q, want %q", i, kinds[i], w.wire)
		}
		if !w.kind.Valid() {
			t.Errorf("Kind(%q).Valid() = false, want true", w.kind)
		}
		if w.kind.Act() != w.act {
			t.Errorf("Kind(%q).Act() = %v, want %v", w.kind, w.kind.Act(), w.act)
		}
	}
	for _, k := range []attend.Kind{"", "Closing", "closing ", "act"} {
		if k.Valid() || k.Act() {
			t.Errorf("Kind(%q): Valid %v, Act %v, want false", k, k.Valid(), k.Act())
		}
	}
	kinds[0] = "changed"
	if got := attend.Kinds()[0]; got != attend.KindClosing {
		t.Errorf("Kinds()[0] became %q with a caller's slice, want a slice of its own", got)
	}
}
