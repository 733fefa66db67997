package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// A guard keeps pages in a browser from using a server that the browser's own
// machine can reach (V4): a request has to name the loopback as its host, and to
// come from no other page. What the browser does not say can't be checked;
// programs say nothing.
type guard struct {
	hosts []string
	cross *http.CrossOriginProtection
}

func newGuard(hosts, origins []string) (*guard, error) {
	g := &guard{hosts: hosts, cross: http.NewCrossOriginProtection()}
	for _, o := range origins {
		if err := g.cross.AddTrustedOrigin(o); err != nil {
			return nil, &attend.InvalidError{Field: "Origins", Want: "origins, such as https://example.com"}
		}
	}
	return g, nil
}

// check returns what is to be answered to a request that is refused, nil for
// one that is not. Health is asked under any name, or none: by a proxy that wants
// to know whether the server is there.
func (g *guard) check(r *http.Request, health bool) *problem.Problem {
	asked := *r
	if onLoopback(r.Context()) {
		if !health && !slices.Contains(g.hosts, "*") && !isLoopback(hostname(r.Host)) && !slices.Contains(g.hosts, hostname(r.Host)) {
			return problem.With(http.StatusForbidden, "the Host of a request to a loopback address is to name the loopback, or a host that was allowed")
		}
		// The protection lets through what should change nothing. On a loopback
		// address nobody else's page has anything to ask.
		asked.Method = http.MethodPost
	}
	if g.cross.Check(&asked) != nil {
		return problem.With(http.StatusForbidden, "a page of another origin made this request in a browser")
	}
	return nil
}

// onLoopback reports whether a request came in on a loopback address. A unix
// socket is none: no browser reaches it.
func onLoopback(ctx context.Context) bool {
	addr, ok := ctx.Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// hostname is a host without its port, in lower case and without a last dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func hasPort(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

// isLoopback reports whether a host is the loopback's own name or address.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
