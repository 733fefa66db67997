package main

import (
	"fmt"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// loadJudge makes the judge that --judge names for a replay, which asks nobody
// outside.
func loadJudge(name string) (attend.Judge, error) {
	if name == "rule" {
		return attend.RuleJudge, nil
	}
	file, ok := strings.CutPrefix(name, "script:")
	switch {
	case !ok:
		return nil, fmt.Errorf("--judge: unknown judge %q, want rule or script:FILE", name)
	case file == "":
		return nil, fmt.Errorf("--judge: want script:FILE")
	}
	return loadScript(file)
}
