package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, test := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"no information", nil, "devel"},
		{"built from the tree", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		{"nothing said", &debug.BuildInfo{}, "devel"},
		{"installed", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "v0.1.0"},
	} {
		if got := versionOf(test.info).Version; got != test.want {
			t.Errorf("%s: version %s, want %s", test.name, got, test.want)
		}
	}
}
