package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

const judgeRule = "rule"

// judgeNames are the judges of this binary.
func judgeNames() []string { return []string{judgeRule} }

// loadJudge makes the judge that --judge names for a replay, which asks nobody
// outside.
func loadJudge(name string) (attend.Judge, error) {
	if name == judgeRule {
		return attend.RuleJudge, nil
	}
	file, ok := strings.CutPrefix(name, "script:")
	switch {
	case !ok:
		return nil, fmt.Errorf("unknown judge %q, want rule or script:FILE", name)
	case file == "":
		return nil, errors.New("want script:FILE")
	}
	return loadScript(file)
}

// judgeOf makes the judge of a server. name is that of the setting that an error
// is about.
func (s *serveSettings) judgeOf(f *flags) (judge attend.Judge, err error) {
	var seen []string
	for name := range strings.SplitSeq(s.judge, ",") {
		name = strings.TrimSpace(name)
		switch {
		case slices.Contains(seen, name):
			return nil, f.at("judge", fmt.Errorf("%s: named twice", name))
		case slices.Contains(judgeNames(), name):
			judge = attend.RuleJudge
		case slices.Contains([]string{"jev", "decisions", "llm:openai", "llm:anthropic"}, name):
			return nil, f.at("judge", fmt.Errorf("this binary has no judge %s; it has %s", name, inWords(judgeNames())))
		default:
			return nil, f.at("judge", fmt.Errorf("unknown judge %q; this binary has %s", name, inWords(judgeNames())))
		}
		seen = append(seen, name)
	}
	for _, name := range []string{"judge-model", "judge-endpoint", "judge-context-tokens", "judge-long-context"} {
		if f.setting(name).place != "" {
			return nil, f.at(name, errors.New("no judge of --judge has such a setting"))
		}
	}
	return judge, nil
}
