package access

import (
	"context"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// reserved begins the names of scopes that belong to the server: nobody may
// bring events into them or read them.
const reserved = "$attend/"

// Reserved reports whether a scope, or what a prefix covers, is the server's
// own. Such scopes hold its webhook subscriptions.
func Reserved(s string) bool { return s+"/" == reserved || strings.HasPrefix(s, reserved) }

// ReservedScope returns the scope of this name that is the server's own.
func ReservedScope(name string) attend.Scope { return attend.Scope(reserved + name) }

// A Principal is somebody who may use a server. It must not be changed once a
// server has it. The zero Principal may do nothing.
type Principal struct {
	// Name tells principals apart: webhook subscriptions belong to a name, and
	// logs may hold it. Never the token. Empty: nobody in particular, who can
	// have no webhook subscriptions.
	Name string
	// Scopes are what it may name: a scope is covered by any of them. The empty
	// prefix covers all. Nil: none.
	Scopes []attend.Prefix
	// Ingest lets it bring events, Read lets it read decisions and windows.
	Ingest, Read bool
}

// Anyone may do everything everywhere. It stands for every request to a server
// that has no tokens.
func Anyone() *Principal {
	return &Principal{Scopes: []attend.Prefix{""}, Ingest: true, Read: true}
}

// MayIngest reports whether p may bring events into s.
func (p *Principal) MayIngest(s attend.Scope) bool { return p.Ingest && p.covers(s) }

// MayRead reports whether p may see s.
func (p *Principal) MayRead(s attend.Scope) bool { return p.Read && p.covers(s) }

func (p *Principal) covers(s attend.Scope) bool {
	if Reserved(string(s)) {
		return false
	}
	for _, x := range p.Scopes {
		if x.Covers(s) {
			return true
		}
	}
	return false
}

// Readable returns what p may read of what a prefix covers, as prefixes of
// which none covers another: empty where p may read nothing of it. The empty
// prefix asks for all that p may read. The server's own scopes are not left out
// of an empty prefix; they have no decisions.
func (p *Principal) Readable(want attend.Prefix) []attend.Prefix {
	if !p.Read || Reserved(string(want)) {
		return nil
	}
	var out []attend.Prefix
	for _, x := range p.Scopes {
		switch {
		case x.Covers(attend.Scope(want)): // it may read all of it
			return []attend.Prefix{want}
		case want.Covers(attend.Scope(x)):
			out = widest(out, x)
		}
	}
	return out
}

// widest adds x to prefixes of which none covers another, and keeps it so.
func widest(list []attend.Prefix, x attend.Prefix) []attend.Prefix {
	kept := list[:0]
	for _, y := range list {
		if y.Covers(attend.Scope(x)) {
			return list
		}
		if !x.Covers(attend.Scope(y)) {
			kept = append(kept, y)
		}
	}
	return append(kept, x)
}

type key struct{}

// With returns a context that carries p.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, key{}, p) //check:allow context the MCP SDK hands nothing of a request on but its context
}

// From returns the principal that ctx carries. Where it carries none, the
// principal may do nothing: a route that forgot to ask lets nobody in.
func From(ctx context.Context) *Principal {
	if p, ok := ctx.Value(key{}).(*Principal); ok && p != nil {
		return p
	}
	return new(Principal)
}
