package access_test

import (
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// Nobody gets by a name what his token does not allow.
func TestNamed(t *testing.T) {
	read := func(name string, scopes ...attend.Prefix) access.Principal {
		return access.Principal{Name: name, Scopes: scopes, Read: true}
	}
	tokens, err := access.NewTokens([]access.Token{
		{"one-token-of-ops-0", read("ops", "ops")}, {"two-token-of-ops-0", read("ops", "ops")},
		{"one-token-of-dev-0", read("dev", "dev")}, {"two-token-of-dev-0", read("dev", "dev", "ops")},
		{"nobody-in-particular", read("", "all")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := tokens.Named("ops"); p == nil || !p.MayRead("ops/db") || p.MayRead("dev") {
		t.Errorf("Named(ops) = %v, want who may read ops", p)
	}
	for _, name := range []string{"dev", "", "other"} {
		if p := tokens.Named(name); p != nil {
			t.Errorf("Named(%q) = %v, want nobody", name, p)
		}
	}
}
