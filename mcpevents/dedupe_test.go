package mcpevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSeenIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewSeen(3, time.Hour)
		for i := range 5 {
			s.Add(fmt.Sprint("e", i))
		}
		if s.Len() != 3 || s.Has("e1") || !s.Has("e2") || !s.Has("e4") {
			t.Errorf("Len() = %d, want the last 3", s.Len())
		}
		s.Add("e2") // is new again
		s.Add("e5")
		if !s.Has("e2") || s.Has("e3") {
			t.Error("what is seen again is forgotten first")
		}
		time.Sleep(time.Hour - 1)
		if !s.Has("e5") {
			t.Error("forgotten before its age")
		}
		time.Sleep(time.Nanosecond)
		if s.Has("e5") {
			t.Error("seen past its age")
		}
		s.Add("e6")
		if s.Len() != 1 {
			t.Errorf("Len() = %d, want 1", s.Len())
		}
		s.Add(strings.Repeat("x", 1<<20))
		if b, _ := json.Marshal(s); len(b) > 200 {
			t.Errorf("%d bytes for two ids", len(b))
		}
	})
	if s := NewSeen(0, 0); s.most != 10_000 || s.age != 7*24*time.Hour {
		t.Errorf("defaults: %d, %v", s.most, s.age)
	}
}

func TestSeenIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := NewSeen(0, time.Hour)
		s.Add("e1")
		time.Sleep(40 * time.Minute)
		s.Add("e2")
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again := NewSeen(0, time.Hour)
		if err := json.Unmarshal(b, again); err != nil {
			t.Fatal(err)
		}
		if !again.Has("e1") || !again.Has("e2") || again.Has("e3") {
			t.Errorf("%s", b)
		}
		time.Sleep(30 * time.Minute)
		if again.Has("e1") || !again.Has("e2") {
			t.Error("the age starts anew")
		}
		small := NewSeen(1, time.Hour)
		if err := json.Unmarshal(b, small); err != nil || small.Len() != 1 || !small.Has("e2") {
			t.Errorf("%v, Len() = %d, want the last one", err, small.Len())
		}
	})
	for _, text := range []string{`{"hashes":"AAAA","times":[1]}`, `{"hashes":"","times":[1]}`, `{"hashes":7}`, `[]`, `"x"`} {
		if err := json.Unmarshal([]byte(text), NewSeen(0, 0)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	var zero Seen
	if b, err := json.Marshal(&zero); err != nil || zero.Has("e") || zero.Len() != 0 {
		t.Errorf("the zero memory: %s, %v", b, err)
	} else if err := json.Unmarshal(b, &zero); err != nil {
		t.Error(err)
	}
	var other Seen
	if other.Add("e"); !other.Has("e") || other.Len() != 1 {
		t.Error("the zero memory takes nothing")
	}
}

func ExampleNewSeen() {
	seen := NewSeen(1000, 24*time.Hour)
	seen.Add("e1")
	kept, err := json.Marshal(seen) // to the place where the cursor is kept
	if err != nil {
		fmt.Println(err)
	}
	later := NewSeen(1000, 24*time.Hour)
	if err := json.Unmarshal(kept, later); err != nil {
		fmt.Println(err)
	}
	fmt.Println(later.Has("e1"), later.Has("e2"))
	// Output: true false
}
