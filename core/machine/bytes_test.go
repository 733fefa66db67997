package machine

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// testdata/bytes/vN holds states and inputs as rules N wrote them: what it is,
// its bytes in hex, an empty line, and what they say. They are read for ever. A
// file is written once, by -update where it is missing, and never again.
const bytesFolder = "testdata/bytes"

func bytesFile(name string) string {
	return filepath.Join(bytesFolder, fmt.Sprintf("v%d", Rules), name+".txt")
}

func TestBytes(t *testing.T) {
	if *traceUpdate {
		bytesWrite(t)
	}
	read := make(map[string]bool)
	err := filepath.WalkDir(bytesFolder, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read[path] = true
		if err := bytesCheck(strings.HasPrefix(f.Name(), "state_"), string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range bytesValues(t) {
		if !read[bytesFile(name)] {
			t.Errorf("%s is missing; -update writes it", bytesFile(name))
		}
	}
}

// bytesCheck reads what a file holds, and compares it with what it says.
func bytesCheck(state bool, text string) error {
	head, want, _ := strings.Cut(text, "\n\n")
	_, digits, _ := strings.Cut(head, "\n") // the first line is for people
	b, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
	if err != nil {
		return err
	}
	var got string
	var again []byte
	if state {
		s, err := DecodeState(b)
		if err != nil {
			return err
		}
		got, again = bytesTellState(s), EncodeState(s)
	} else {
		in, err := DecodeInput(b)
		if err != nil {
			return err
		}
		got, again = bytesTell(in), EncodeInput(in)
	}
	if got != want {
		return fmt.Errorf("the bytes say\n%s\nwant\n%s", got, want)
	}
	if b[0] == encoding && b[1] == Rules && !bytes.Equal(again, b) {
		return fmt.Errorf("encoded again\n%x\nwant\n%x", again, b)
	}
	return nil
}

// bytesWrite writes the files that are missing.
func bytesWrite(t *testing.T) {
	t.Helper()
	for name, v := range bytesValues(t) {
		file := bytesFile(name)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		text := "# " + strings.ReplaceAll(name, "_", " ") + "\n"
		for d := hex.EncodeToString(v.bytes); d != ""; {
			n := min(len(d), 96)
			text, d = text+d[:n]+"\n", d[n:]
		}
		if err := os.WriteFile(file, []byte(text+"\n"+v.tells), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A bytesValue is what a file holds.
type bytesValue struct {
	bytes []byte
	tells string
}

// bytesValues are the states and inputs that today's rules write.
func bytesValues(t *testing.T) map[string]bytesValue {
	t.Helper()
	values := make(map[string]bytesValue)
	for name, in := range bytesInputs() {
		values["input_"+name] = bytesValue{EncodeInput(in), bytesTell(in)}
	}
	for name, story := range bytesStories {
		r := newTraceRun()
		for line := range strings.SplitSeq(strings.TrimSpace(story), "\n") {
			if _, err := r.tell(line); err != nil {
				t.Fatalf("%s: %s: %v", name, line, err)
			}
		}
		values["state_"+name] = bytesValue{EncodeState(r.state), bytesTellState(r.state)}
	}
	return values
}

// bytesStories make states that together have everything that a state can hold.
var bytesStories = map[string]string{
	"new": `
0ms configure`,

	// An open window with every kind and every deadline, a held one, verdicts.
	"held": `
0ms configure closingGrace=1m streamGap=1m passiveQuiet=1m seenCount=3
0ms push a:closing log:consequence by B
0ms end by B
1s claim judge
2s judged wait wait=0.75 skip=0.25 ?urgent=0.125 confidence=0.5
3s batch ci after - cursor 1 b:closing:400 c:continuous@-1h d:passive e:consequence f:context gap
4s push b:closing by C#77`,

	// A window in the slot that failed once under a lease, a flush and an end that
	// wait for it, events of which some were dropped.
	"judged": `
0ms configure maxEvents=3
0ms push l1..l4:consequence a:flush
0ms claim judge by A for 30s
1s failed account "no money"
2s claim judge by A for 30s
3s failed "busy"
4s claim judge by B for 30s
5s push b:flush
5s flush
6s end`,

	// Both lanes, with letters of each stage, one of them leased.
	"lanes": `
0ms configure retryBackoff=1s actThreshold=0.5 recordVerdicts=false recentCount=1
0ms push a:flush
0ms claim judge
0ms failed permanent "no such model"
1s push b:flush
1s claim judge
1s judged skip interrupt=0.5 ask=0.25 ?urgent=1
1s claim decision
2s failed permanent "no such address"
3s batch mail after - cursor m1 c:flush reject d "the kind is none of the six"
3s claim judge
3s judged queue
4s claim letter by B for 20s
4s claim decision by A for 20s
5s failed "no line" of delivery 2`,

	// What is left of a scope that was idle for long.
	"cursors": `
0ms batch ci after - cursor 41 a:flush gap
0ms claim judge
0ms judged skip
0ms batch mail after - cursor m1 gap
40d forget`,
}

// bytesInputs has each type of input, full and as empty as it can be.
func bytesInputs() map[string]Input {
	at := traceBegin.Add(1500 * time.Millisecond)
	p := policyWith(func(p *Policy) {
		p.RetryBackoff, p.ActThreshold, p.LogDecisions, p.LogLetters = []time.Duration{time.Millisecond, time.Hour}, 0.7, true, true
		p.ClosingGrace, p.MaxEvents = 0, 7
	})
	return map[string]Input{
		"configure":         Configure{at, "ops/db", Seed{1, 2, 3, 23: 255}, p},
		"configure_default": Configure{At: at, Scope: "ops/db", Policy: policyWith(func(*Policy) {})},
		"push": Arrive{At: at, Writer: 1<<63 + 1, Number: 300, Events: []attend.Event{
			{ID: "1", Name: "build.finished", At: at.Add(-time.Hour), Data: json.RawMessage(`{"branch":"main"}`), Text: "Build 1 finished “well”", Kind: attend.KindClosing},
			{ID: "2", Name: "message", At: at.Add(time.Second), Data: json.RawMessage(`null`), Kind: attend.KindFlush},
			{ID: "3", Name: "typed", Data: json.RawMessage(`{}`), Kind: attend.KindContinuous},
			{ID: "4", Name: "looked", Data: json.RawMessage(`{}`), Kind: attend.KindPassive},
			{ID: "5", Name: "log.line", Data: json.RawMessage(`["x"]`), Kind: attend.KindConsequence},
			{ID: "6", Name: "agent.said", Data: json.RawMessage(`{}`), Kind: attend.KindContext},
		}},
		"batch": Arrive{
			At: at, Writer: 2, Number: 1, Source: "log:ci", After: "6", Cursor: "7", Gap: true,
			Events:   []attend.Event{{ID: "1", Name: "alert", Data: json.RawMessage(`{}`), Kind: attend.KindClosing}},
			Rejected: []Rejected{{attend.Event{ID: "2", Name: "odd", Data: json.RawMessage(`{}`)}, "the kind is none of the six"}},
		},
		"arrive_nothing": Arrive{At: at},
		"flush":          Flush{at, 7, 8},
		"end":            End{at, 1<<64 - 1, 1<<64 - 1},
		"tick":           Tick{at},
		"claim":          Claim{at, LaneDecision, 4711, 1 << 40, at.Add(30 * time.Second)},
		"judged": Judged{at, 12, 13, attend.Judgment{
			Route:         attend.RouteAsk,
			Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.125, attend.RouteQueue: 0, attend.RouteNote: 0.25, attend.RouteAsk: 0.5, attend.RouteSkip: 0.0625, attend.RouteWait: 1},
			Predicates:    map[string]float64{"urgent": 1e-9, "is anybody waiting?": 1},
			Confidence:    0.75,
		}},
		"judged_plain":    Judged{At: at, Num: 12, Judgment: attend.Judgment{Route: attend.RouteInterrupt}},
		"judged_wrong":    Judged{At: at, Num: 12, Attempt: 13, Judgment: attend.Judgment{Route: "shout"}},
		"failed":          Failed{at, LaneLetter, 5, 6, "handler is away", true, true, time.Minute},
		"failed_plainly":  Failed{At: at, Num: 5, Attempt: 6},
		"done":            Done{at, LaneLetter, 9},
		"give_back":       GiveBack{at, LaneJudge, 10, 11},
		"forget":          Forget{at},
		"without_a_time":  Tick{},
		"long_before_now": Tick{time.UnixMilli(-1)},
	}
}

// bytesTell tells all of an input, as the machine reads it from a store.
func bytesTell(in Input) string {
	read, err := DecodeInput(EncodeInput(in))
	if err != nil {
		return err.Error() + "\n"
	}
	v := reflect.ValueOf(read)
	text := v.Type().Name() + "\n"
	for i := range v.NumField() {
		text += fmt.Sprintf("%s %s\n", v.Type().Field(i).Name, bytesTellValue(v.Field(i)))
	}
	return text
}

func bytesTellValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return "none"
		}
		return fmt.Sprint(x.UnixMilli())
	case *Policy:
		return bytesTellPolicy(x)
	case Seed:
		return hex.EncodeToString(x[:])
	case []attend.Event, attend.Judgment:
		b, err := json.Marshal(x)
		if err != nil {
			return err.Error()
		}
		return string(b)
	case []Rejected:
		var texts []string
		for _, r := range x {
			texts = append(texts, bytesTellValue(reflect.ValueOf([]attend.Event{r.Event}))+" "+r.Message)
		}
		return strings.Join(texts, "; ")
	}
	return fmt.Sprintf("%v", v.Interface())
}

func bytesTellPolicy(p *Policy) string {
	s := p.scalars()
	return fmt.Sprint(s.durations, s.counts, s.threshold, s.flags, p.RetryBackoff)
}
