package access_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// V3, V8: a prefix covers whole names, up to a border.
func TestV3Prefixes(t *testing.T) {
	for _, c := range []struct {
		have attend.Prefix
		s    attend.Scope
		want bool
	}{
		{"ops/", "ops/db", true}, {"ops/", "ops", false}, {"ops", "ops", true}, {"ops", "ops/db", true},
		{"ops", "ops:db", true}, {"ops", "opsx", false}, {"", "anything", true}, {"", "$attend/x", false},
		{"$attend", "$attend/x", false}, {"", "$attend", false}, {"", "$attendx", true},
	} {
		p := access.Principal{Scopes: []attend.Prefix{"other", c.have}, Ingest: true, Read: true}
		if got := p.MayRead(c.s); got != c.want {
			t.Errorf("%q may read %q: %v", c.have, c.s, got)
		}
		if got := p.MayIngest(c.s); got != c.want {
			t.Errorf("%q may bring events into %q: %v", c.have, c.s, got)
		}
		p.Ingest, p.Read = false, false
		if p.MayRead(c.s) || p.MayIngest(c.s) {
			t.Errorf("%q without rights has some on %q", c.have, c.s)
		}
	}
}

func TestReadable(t *testing.T) {
	for _, c := range []struct{ have, want, get []attend.Prefix }{
		{[]attend.Prefix{""}, []attend.Prefix{""}, []attend.Prefix{""}},
		{[]attend.Prefix{""}, []attend.Prefix{"ops/"}, []attend.Prefix{"ops/"}},
		{[]attend.Prefix{"ops", "dev"}, []attend.Prefix{""}, []attend.Prefix{"ops", "dev"}},
		{[]attend.Prefix{"ops/db", "dev", "ops"}, []attend.Prefix{""}, []attend.Prefix{"dev", "ops"}},
		{[]attend.Prefix{"ops", "ops/db"}, []attend.Prefix{""}, []attend.Prefix{"ops"}},
		{[]attend.Prefix{"ops/"}, []attend.Prefix{"ops"}, []attend.Prefix{"ops/"}},
		{[]attend.Prefix{"ops"}, []attend.Prefix{"ops/"}, []attend.Prefix{"ops/"}},
		{[]attend.Prefix{"ops"}, []attend.Prefix{"opsx"}, nil},
		{[]attend.Prefix{""}, []attend.Prefix{"$attend/"}, nil},
	} {
		p := access.Principal{Scopes: c.have, Read: true}
		if got := p.Readable(c.want[0]); !slices.Equal(got, c.get) {
			t.Errorf("who may read %q gets %q of %q, want %q", c.have, got, c.want, c.get)
		}
		if !slices.Equal(p.Scopes, c.have) {
			t.Errorf("the principal has changed to %q", p.Scopes)
		}
		p.Read = false
		if got := p.Readable(c.want[0]); got != nil {
			t.Errorf("who may not read gets %q", got)
		}
	}
}

func TestTokens(t *testing.T) {
	ops := access.Principal{Name: "ops", Scopes: []attend.Prefix{"ops"}, Read: true}
	all := access.Principal{Name: "all", Scopes: []attend.Prefix{""}, Ingest: true}
	one, two := strings.Repeat("a", 16), strings.Repeat("b", 512)
	tokens, err := access.NewTokens([]access.Token{{one, ops}, {two, all}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := tokens.Find(one), tokens.Find(two), tokens.Find(one+"a"); a == nil || a.Name != "ops" || b == nil || b.Name != "all" || c != nil || tokens.Find("") != nil {
		t.Errorf("Find = %v, %v, %v", a, b, c)
	}
	for name, list := range map[string][]access.Token{
		"short":    {{one[1:], ops}},
		"long":     {{two + "b", ops}},
		"space":    {{"a b" + one, ops}},
		"twice":    {{one, ops}, {one, all}},
		"no right": {{one, access.Principal{Scopes: []attend.Prefix{""}}}},
		"no scope": {{one, access.Principal{Read: true}}},
		"newline":  {{one, access.Principal{Read: true, Scopes: []attend.Prefix{"a\n"}}}},
		"reserved": {{one, access.Principal{Read: true, Scopes: []attend.Prefix{"$attend"}}}},
	} {
		if _, err := access.NewTokens(list); !errors.Is(err, attend.ErrInvalid) || strings.Contains(err.Error(), list[0].Secret) {
			t.Errorf("%s: %v, want an invalid token that is not quoted", name, err)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    string
		ok      bool
	}{
		{nil, "", false}, {[]string{"Bearer abc"}, "abc", true}, {[]string{"bearer abc"}, "abc", true},
		{[]string{"Basic abc"}, "", false}, {[]string{"Bearer "}, "", false}, {[]string{"Bearer a", "Bearer b"}, "", false},
		{[]string{"Bearer " + strings.Repeat("a", 513)}, "", false},
	} {
		r := &http.Request{Header: http.Header{"Authorization": c.headers}}
		if got, ok := access.Bearer(r); got != c.want || ok != c.ok {
			t.Errorf("Bearer of %.20q = %.20q, %v", c.headers, got, ok)
		}
	}
}

// A route that forgot to ask lets nobody in.
func TestFromNobody(t *testing.T) {
	if p := access.From(t.Context()); p.MayRead("a") || p.MayIngest("a") {
		t.Error("a context without a principal has rights")
	}
	if p := access.From(access.With(t.Context(), access.Anyone())); !p.MayRead("a") || !p.MayIngest("a") {
		t.Error("anyone has no rights")
	}
}
