package journal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

var sample = []attend.Write{
	{Scope: "ops/db", Expect: 7, Inputs: [][]byte{[]byte("one"), nil, bytes.Repeat([]byte("x"), 300)}, Due: time.UnixMilli(-5)},
	{Scope: "", Snapshot: []byte{}},
	{Scope: "gone", Expect: 9, Forget: true},
	{Scope: "kept", Expect: 1, KeepDue: true, Snapshot: []byte("state"), Inputs: [][]byte{{0}}},
}

// Every record that is cut or has a wrong bit is an error that says which.
func TestDamagedRecords(t *testing.T) {
	good, err := journal.Encode(sample)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := journal.Decode(good); n != len(sample) || err != nil {
		t.Fatalf("Decode = %d changes, %v, want %d", n, err, len(sample))
	}
	damaged := func(what string, at int, body []byte) {
		t.Helper()
		b := newBackend()
		b.records = [][]byte{body}
		_, err := open(b, 0)
		// A wrong bit in the format's number makes it a newer one.
		if !errors.Is(err, attend.ErrCorrupt) && !(errors.Is(err, attend.ErrNewer) && at == 0) || !strings.Contains(err.Error(), "record 1") {
			t.Fatalf("Open with a record %s %d: %v", what, at, err)
		}
	}
	for i := range good {
		damaged("cut to", i, good[:i])
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			damaged("with a wrong bit in byte", i, bad)
		}
	}
	damaged("with a byte behind", len(good), append(bytes.Clone(good), 0))
}

// Records that are whole but do not fit to each other.
func TestStrangeRecords(t *testing.T) {
	first, _ := journal.Encode([]attend.Write{{Scope: "s", Inputs: [][]byte{[]byte("a")}}})
	late, _ := journal.Encode([]attend.Write{{Scope: "s", Expect: 5, Inputs: [][]byte{[]byte("b")}}})
	for _, c := range []struct {
		name    string
		oldest  uint64
		records [][]byte
	}{
		{"a record that goes on with a scope that is not there", 1, [][]byte{late}},
		{"a record of another version", 1, [][]byte{first, late}},
		{"a scope that begins twice", 1, [][]byte{first, first}},
		{"no oldest", 0, [][]byte{first}},
		{"a flag that there isn't", 1, [][]byte{journal.Seal([]byte("\x40\x01s\x00\x05\x00"))}},
		{"a version that is none", 1, [][]byte{journal.Seal([]byte("\x00\x01s\x00\x00\x00"))}},
		{"an input longer than what is there", 1, [][]byte{journal.Seal([]byte("\x00\x01s\x00\x05\x02\x09a"))}},
	} {
		b := newBackend()
		b.oldest, b.records = c.oldest, c.records
		if _, err := open(b, 0); !errors.Is(err, attend.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", c.name, err)
		}
	}
}

func TestDamagedState(t *testing.T) {
	b := newBackend()
	s := mustOpen(t, b, 1)
	for range 5 {
		add(t, s, 10, "s")
		add(t, s, 10, "t")
	}
	add(t, s, 10, "t")
	state, ok := b.states["s"]
	if !ok {
		t.Fatal("s is not folded")
	}
	for i := range state.Body {
		bad := state
		bad.Body = bytes.Clone(state.Body)
		bad.Body[i] ^= 0x10
		b.states["s"] = bad
		_, err := s.Load(t.Context(), "s")
		if !errors.Is(err, attend.ErrCorrupt) && !(errors.Is(err, attend.ErrNewer) && i == 0) || !strings.Contains(err.Error(), `"s"`) {
			t.Fatalf("Load with a wrong bit in byte %d: %v", i, err)
		}
		bad.Body = state.Body[:i]
		b.states["s"] = bad
		if _, err := s.Load(t.Context(), "s"); !errors.Is(err, attend.ErrCorrupt) {
			t.Fatalf("Load of a state cut to %d bytes: %v", i, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := journal.Encode(sample)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := journal.Decode(body)
		if err != nil && !errors.Is(err, attend.ErrCorrupt) && !errors.Is(err, attend.ErrNewer) {
			t.Errorf("Decode: %v", err)
		}
		_, err = journal.DecodeState(body)
		if err != nil && !errors.Is(err, attend.ErrCorrupt) && !errors.Is(err, attend.ErrNewer) {
			t.Errorf("DecodeState: %v", err)
		}
		// What is behind the checksum must be as safe.
		journal.DecodeChanges(body)
	})
}
