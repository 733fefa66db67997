package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// recordedDay is where the tree has a recording to try; a copy of this module
// alone has none.
const recordedDay = "../../examples/data"

var update = flag.Bool("update", false, "rewrite what the scripts expect; read the difference")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"attend": main})
}

func TestScripts(t *testing.T) {
	day, err := filepath.Abs(recordedDay)
	if err != nil {
		t.Fatal(err)
	}
	cmds := serverCommands()
	cmds["longline"] = longLine
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DAY", day)
			e.Values[servedKey{}] = new(served)
			e.Setenv("GORACE", "atexit_sleep_ms=10") // else each command takes a second with the race detector
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "day" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			_, err := os.Stat(filepath.Join(day, "github-day.ndjson"))
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return true, err
		},
		Cmds: cmds,
	})
}

// longLine writes FILE with N more bytes of text in the place of LONG.
func longLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: longline FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "LONG", strings.Repeat("x", n))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}
