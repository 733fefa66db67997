package ingest_test

import (
	"errors"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/ingest"
)

// What is wrong with a Config is said by New, and names the option.
func TestNewRefuses(t *testing.T) {
	e := newEngine(t, engineConfig())
	for _, c := range []struct {
		field string
		cfg   ingest.Config
	}{
		{"Engine", ingest.Config{}},
		{"Scope", ingest.Config{Engine: e, Scope: "ops"}},
		{"Scope", ingest.Config{Engine: e, Scope: "{source"}},
		{"Scope", ingest.Config{Engine: e, Scope: "source}"}},
		{"Scope", ingest.Config{Engine: e, Scope: "{}"}},
		{"Scope", ingest.Config{Engine: e, Scope: "{Source}"}},
		{"Scope", ingest.Config{Engine: e, Scope: "{data}"}},
		{"Scope", ingest.Config{Engine: e, Scope: "{a{b}}"}},
		{"MaxLine", ingest.Config{Engine: e, MaxLine: -1}},
		{"MaxBody", ingest.Config{Engine: e, MaxBody: -1}},
		{"MaxRejected", ingest.Config{Engine: e, MaxRejected: -1}},
		{"Memory", ingest.Config{Engine: e, Memory: -1}},
		{"Inflaters", ingest.Config{Engine: e, Inflaters: -1}},
		{"Credit", ingest.Config{Engine: e, Credit: -1}},
		{"Commit", ingest.Config{Engine: e, Commit: -1}},
		{"Silence", ingest.Config{Engine: e, Silence: -1}},
		{"Idle", ingest.Config{Engine: e, Idle: -1}},
		{"Stall", ingest.Config{Engine: e, Stall: -1}},
	} {
		if _, err := ingest.New(c.cfg); !errors.Is(err, attend.ErrInvalid) || !strings.Contains(err.Error(), c.field+":") {
			t.Errorf("New(%+v) = %v, want an error that names %s", c.cfg, err, c.field)
		}
	}
}
