package attend_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/vectors"
)

// idVector is a file of vectors/decisionid.
type idVector struct {
	scope      attend.Scope
	events     []attend.Event
	id, intake attend.DecisionID
}

func readIDVectors(t *testing.T) map[string]idVector {
	t.Helper()
	names, err := fs.Glob(vectors.FS, "decisionid/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("Glob(decisionid/*.txt) = %v, %v, want the vectors", names, err)
	}
	all := make(map[string]idVector)
	for _, name := range names {
		text, err := fs.ReadFile(vectors.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := parseIDVector(string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(path.Base(name), ".txt")] = v
	}
	return all
}

func parseIDVector(text string) (v idVector, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "scope":
			err = json.Unmarshal([]byte(rest), &v.scope)
		case "event":
			dec := json.NewDecoder(strings.NewReader(rest))
			var e attend.Event
			if err = dec.Decode(&e.Source); err == nil {
				err = dec.Decode(&e.ID)
			}
			v.events = append(v.events, e)
		case "id":
			v.id = attend.DecisionID(rest)
		case "intake":
			v.intake = attend.DecisionID(rest)
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return v, err
		}
	}
	return v, nil
}

func TestDecisionIDVectors(t *testing.T) {
	for name, v := range readIDVectors(t) {
		t.Run(name, func(t *testing.T) {
			if got := attend.NewDecisionID(v.scope, v.events); got != v.id {
				t.Errorf("NewDecisionID = %s, want %s", got, v.id)
			}
			if (v.intake != "") != (len(v.events) == 1) {
				t.Errorf("intake id %q in a file of %d events", v.intake, len(v.events))
			}
			if v.intake == "" {
				return
			}
			if got := attend.NewIntakeID(v.scope, v.events[0]); got != v.intake {
				t.Errorf("NewIntakeID = %s, want %s", got, v.intake)
			}
		})
	}
}

func TestDecisionIDVectorsDiffer(t *testing.T) {
	seen := make(map[attend.DecisionID]string)
	for name, v := range readIDVectors(t) {
		for _, id := range []attend.DecisionID{v.id, v.intake} {
			if id == "" {
				continue
			}
			if other, ok := seen[id]; ok {
				t.Errorf("%s and %s have the id %s both", name, other, id)
			}
			seen[id] = name
		}
	}
}

// specID is the doc comment of NewDecisionID, word for word.
func specID(tag string, scope attend.Scope, events []attend.Event) attend.DecisionID {
	u64 := func(n int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	str := func(s string) string { return u64(len(s)) + s }
	text := tag + str(string(scope)) + u64(len(events))
	for _, e := range events {
		text += str(e.Source) + str(e.ID)
	}
	return attend.DecisionID(fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:40])
}

func FuzzDecisionID(f *testing.F) {
	f.Add("ops/db", "log:a", "e-1", "", "e-2", 3)
	f.Add("", "", "", "", "", 0)
	f.Add("s", strings.Repeat("k", 1024), strings.Repeat("i", 256), "", "x", 250)
	f.Fuzz(func(t *testing.T, scope, source1, id1, source2, id2 string, n int) {
		var events []attend.Event
		for i := range min(max(n, 0), 300) {
			e := attend.Event{Source: source1, ID: id1, Name: "not in the hash"}
			if i%2 == 1 {
				e = attend.Event{Source: source2, ID: id2, Text: "nor this"}
			}
			events = append(events, e)
		}
		got := attend.NewDecisionID(attend.Scope(scope), events)
		if want := specID("attend decision 1\n", attend.Scope(scope), events); got != want {
			t.Errorf("NewDecisionID of %d events = %s, want %s", len(events), got, want)
		}
		e := attend.Event{Source: source1, ID: id1}
		intake := attend.NewIntakeID(attend.Scope(scope), e)
		if want := specID("attend intake 1\n", attend.Scope(scope), []attend.Event{e}); intake != want {
			t.Errorf("NewIntakeID = %s, want %s", intake, want)
		}
	})
}

func TestDecisionScope(t *testing.T) {
	d := attend.Decision{Window: attend.Window{Scope: "ops/db"}}
	if got := d.Scope(); got != "ops/db" {
		t.Errorf("Scope() = %q, want %q", got, "ops/db")
	}
}
