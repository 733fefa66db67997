package server

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// Config says how a [Server] serves. The zero Config serves everything to
// everybody, which is right on a loopback address alone. A server keeps what a
// Config points to, and nobody may change it afterwards.
type Config struct {
	// Tokens knows who brings which bearer token. Nil: there are none.
	Tokens *access.Tokens
	// Principal says who a request is from, for an app that knows it by other
	// means; Tokens is nil then. No principal and no error is nobody: 401. After
	// an error, which is logged and so must hold no secret, the answer is 503.
	// It is called from many goroutines at once. Nil: Tokens decide, and where
	// there are none either, everybody may do everything.
	Principal func(*http.Request) (*access.Principal, error)

	// Hosts are names, without ports, that requests on a loopback address may
	// have as their host beside the loopback's own, such as the name under which
	// a proxy on this machine is known: it keeps out pages of a browser whose
	// name was made to point here. One that is "*" allows all. Nil: none.
	Hosts []string
	// Origins are pages' origins, such as "https://example.com", whose requests
	// are taken from browsers beside the server's own. No header is sent that
	// would let such a page read an answer: that is the proxy's. Nil: none.
	Origins []string

	// CloudEventScope makes the scope of a CloudEvent out of its attributes, in
	// braces. Empty: "{source}/{subject}", and "{source}" for one without subject.
	CloudEventScope string
	// Named says whom the name of a principal stands for now, nil for a name that
	// is not known any more: deliveries to webhooks go on as long as their
	// principal may read. Nil: Tokens know it; beside Principal there are no
	// webhooks then.
	Named func(name string) *access.Principal
	// Version is what the server calls its own to MCP clients. Empty: the one
	// that was built into the program.
	Version string

	// ReadTimeout bounds each read of a request's body, and WriteTimeout each
	// write of an answer: how long a peer may stand still. An open stream waits
	// five minutes for a line. Default 30 s each.
	ReadTimeout, WriteTimeout time.Duration
	// StoreTimeout is how long the store may take to answer for the server to be
	// ready. Default 2 s.
	StoreTimeout time.Duration

	// Metrics is what /metrics shows. It measures the engine where that was made
	// with it. Nil: there is no such route.
	Metrics *Metrics
	// Logger gets a line for each request, at level debug where all is well. No
	// event, scope, token or query is in it. Nil: [slog.Default].
	Logger *slog.Logger
}

const longest = time.Hour

// withDefaults checks c and fills in what it leaves out.
func (c Config) withDefaults() (Config, error) {
	if c.Tokens != nil && c.Principal != nil {
		return c, &attend.InvalidError{Field: "Principal", Want: "nothing beside Tokens"}
	}
	for _, d := range []struct {
		name string
		to   *time.Duration
		def  time.Duration
	}{
		{"ReadTimeout", &c.ReadTimeout, 30 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 30 * time.Second},
		{"StoreTimeout", &c.StoreTimeout, 2 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
		if *d.to < time.Millisecond || *d.to > longest {
			return c, &attend.InvalidError{Field: d.name, Want: "a duration from 1 ms to 1 hour"}
		}
	}
	c.Hosts = slices.Clone(c.Hosts)
	for i, h := range c.Hosts {
		if h == "" || strings.ContainsAny(h, "/ ") || h != "*" && strings.Contains(h, "*") || hasPort(h) {
			return c, &attend.InvalidError{Field: "Hosts", Want: `names of hosts without ports, or "*"`}
		}
		c.Hosts[i] = hostname(h)
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return c, &attend.InvalidError{Field: "Origins", Want: "origins, such as https://example.com"}
		}
	}
	if c.Named == nil && c.Tokens != nil {
		c.Named = c.Tokens.Named
	}
	c.Version = versionOr(c.Version)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}
