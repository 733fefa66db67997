package machine

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A trace is a story that the machine is told, a line an input, and what it
// answers, in lines that begin with =. The folder core/vectors/settle is full
// of them. After a change of a rule
//
//	go test ./core/machine -run Trace -update
//
// writes the answers anew, and a person reads the difference: what a trace says
// must be what the rules say.
//
// An input's line begins with its time, counted from the trace's begin. What it
// can say:
//
//	push log:consequence done:closing  events, as id:kind; e1..e9:closing is nine of them
//	     big:closing:4000              one of 4000 bytes, as Event.Size counts
//	     late:closing@-1h              one whose producer's clock is an hour slow
//	batch ci after 6 cursor 7 a:flush  a source's events; - is the empty cursor
//	     gap reject b "no such kind"   and what else a batch can bring
//	flush, end, tick, forget
//	configure maxEvents=3              a policy that differs from the one before
//	claim judge by A for 30s           or decision, or letter; 30s if not said
//	judged queue interrupt=0.2 ?urgent=0.9 confidence=0.5
//	failed "busy"                      also permanent, account, retry-after 10s
//	done, give-back
//	     of call 1                     answers are of the last claim, or of the one named
//	again                              the last input once more, as after a lost answer
//
// Push, batch, flush and end come from engine A and its next number; "by B" and
// "by B#3" say otherwise, and "by nobody" leaves it out. The first push or batch
// of a scope brings its policy with it. Lines without a time look, or act on the
// store: show, ask (the judge that needs no lease), reload (the process dies,
// and another reads what is stored), remove (somebody removes the scope), ids
// (ids of windows are shown from here on).
//
// After each input, trace_check_test.go looks at what holds for all of them.

var traceUpdate = flag.Bool("update", false, "write the answers of traces anew, and missing bytes")

const traceFolder = "../vectors/settle"

// traceBegin is when every trace begins.
var traceBegin = time.UnixMilli(1_767_225_600_000)

func TestTraces(t *testing.T) {
	for name, text := range traceFiles(t) {
		t.Run(strings.TrimSuffix(name, ".trace"), func(t *testing.T) {
			got := traceRetell(t, text)
			if *traceUpdate && got != text && !t.Failed() {
				if err := os.WriteFile(filepath.Join(traceFolder, name), []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			traceCompare(t, got, text)
		})
	}
}

// traceFiles reads the folder from the disk and not as it was embedded, so that
// an update sees what an editor has saved.
func traceFiles(t *testing.T) map[string]string {
	t.Helper()
	folder := os.DirFS(traceFolder)
	names, err := fs.Glob(folder, "*.trace")
	if err != nil || len(names) == 0 {
		t.Fatalf("traces in %s: %d, %v", traceFolder, len(names), err)
	}
	files := make(map[string]string, len(names))
	for _, name := range names {
		b, err := fs.ReadFile(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		files[path.Base(name)] = string(b)
	}
	return files
}

// traceRetell returns text with the answers that the machine gives.
func traceRetell(t *testing.T, text string) string {
	t.Helper()
	r := newTraceRun()
	var out []string
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "=") {
			continue
		}
		out = append(out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		answers, err := r.tell(line)
		if err != nil {
			t.Fatalf("line %d, %s: %v", i+1, line, err)
		}
		for _, a := range answers {
			out = append(out, "= "+a)
		}
	}
	if err := r.checkEnd(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// traceCompare says where two texts first differ, and on which input.
func traceCompare(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	input := ""
	for i := range max(len(g), len(w)) {
		a, b := "(the end)", "(the end)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Fatalf("line %d, after %q\n got %s\nwant %s", i+1, input, a, b)
		}
		if !strings.HasPrefix(a, "=") {
			input = a
		}
	}
}

// A traceRun is a scope in the middle of its story.
type traceRun struct {
	state   State
	policy  Policy
	numbers map[string]uint64 // of each engine, the last running number
	last    traceInput
	claims  []traceClaim
	names   map[uint64]attend.EventRef // by hash
	ids     bool
	at      time.Time // of the line
	lives   int       // of the scope, that have ended
	traceRecord
}

// A traceInput is an input, and whether it says who wrote it: what nobody wrote
// lands each time that it is applied (E29).
type traceInput struct {
	Input
	nobody bool
}

// A traceClaim is a piece of work that was claimed: "call 1" is the first one
// that was the judge's.
type traceClaim struct {
	lane         Lane
	num, attempt uint64
}

var traceLanes = map[string]Lane{"judge": LaneJudge, "decision": LaneDecision, "letter": LaneLetter}

// traceWork is what work of each lane is called.
var traceWork = [...]string{LaneJudge: "call", LaneDecision: "delivery", LaneLetter: "letter"}

func newTraceRun() *traceRun {
	return &traceRun{policy: DefaultPolicy(), numbers: make(map[string]uint64), names: make(map[uint64]attend.EventRef)}
}

// tell tells the machine one line of a story, and returns its answers.
func (r *traceRun) tell(line string) ([]string, error) {
	l, err := traceParse(line)
	if err != nil {
		return nil, err
	}
	switch l.verb {
	case "show":
		return r.show(l.words)
	case "ask":
		c, ok := r.state.Ask(r.at)
		if !ok {
			return []string{"nothing to ask"}, l.rest()
		}
		return []string{r.call(c)}, l.rest()
	case "ids":
		r.ids = true
		return nil, l.rest()
	case "remove":
		r.state, r.traceRecord, r.lives = State{}, traceRecord{}, r.lives+1
		return nil, l.rest()
	case "reload":
		r.state, err = DecodeState(EncodeState(r.state))
		if err != nil {
			return nil, err
		}
		return nil, l.rest()
	}
	if l.timed {
		r.at = traceBegin.Add(l.at)
	}
	in := r.last
	if l.verb != "again" {
		in, err = r.input(l)
		if err != nil {
			return nil, err
		}
	} else if in.Input == nil {
		return nil, fmt.Errorf("again, but nothing came before")
	}
	if err := l.rest(); err != nil {
		return nil, err
	}
	r.last = in
	return r.apply(in)
}

// apply applies an input as an engine does: with the scope's policy beside its
// first events, and both or none of them written (E48).
func (r *traceRun) apply(in traceInput) ([]string, error) {
	before, record := r.state, r.traceRecord
	due := Effects{}
	if _, ok := in.Input.(Arrive); ok && r.state.Scope() == "" {
		first, err := r.check(traceInput{Input: r.configure()})
		if err != nil {
			return nil, err
		}
		due = first
	}
	effects, err := r.check(in)
	if err != nil {
		return nil, err
	}
	if !effects.Changed {
		r.state, r.traceRecord = before, record
	} else if !effects.MoveDue && due.MoveDue {
		effects.MoveDue, effects.Due = true, due.Due
	}
	if effects.Forget {
		r.lives++
	}
	return r.answers(effects), nil
}

const traceScope = attend.Scope("ops/db")

// configure is the input that brings the run's policy. Its seed is no random one:
// the numbers of the scope's first life count from 1.
func (r *traceRun) configure() Input {
	in := Configure{At: r.at, Scope: traceScope, Policy: new(r.policy)}
	in.Seed[0] = byte(r.lives)
	binary.BigEndian.PutUint64(in.Seed[16:], uint64(r.lives)*4_000_000)
	return in
}
