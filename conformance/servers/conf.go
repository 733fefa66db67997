package servers

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// conf writes the defaults and the settings that win over them, sorted, a line
// each. Names are checked, and so is that none is one of our own.
func conf(defaults map[string]string, own []string, name *regexp.Regexp, settings map[string]string, line func(k, v string) string) (string, error) {
	all := maps.Clone(defaults)
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		v := settings[k]
		low := strings.ToLower(k)
		switch {
		case !name.MatchString(k):
			return "", fmt.Errorf("setting %q: this is no name of a setting", k)
		case slices.Contains(own, low):
			return "", fmt.Errorf("setting %q: it can't be set, this package needs it", k)
		case strings.Contains(v, "\x00"):
			return "", fmt.Errorf("setting %q: its value has a zero byte", k)
		}
		all[low] = v
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(line(k, all[k]) + "\n")
	}
	return b.String(), nil
}
