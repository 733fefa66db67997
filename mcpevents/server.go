package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a [ServerConfig] that says nothing else means.
const (
	defaultHeartbeat = 15 * time.Second
	maxHeartbeat     = 30 * time.Second
	defaultRecheck   = 60 * time.Second
	defaultNextPoll  = 5 * time.Second
	defaultListTTL   = 5 * time.Minute
	defaultPageSize  = 100
	defaultStreams   = 1000
	defaultAll       = 10_000
	defaultPolls     = 600
)

// ServerConfig configures a [Server]. The zero one is usable.
type ServerConfig struct {
	// Types are offered from the start; more come by Offer.
	Types []Type
	// Principal tells who asks, from the context of a request; empty is nobody.
	// Nil is the UserID of the SDK's auth.TokenInfo. On a pipe the context is
	// that of the transport's Connect. In a session of an older revision over
	// HTTP, which Older serves, it has the values of the request that began the
	// session, whoever sends the later ones: leave it to the SDK's
	// auth.RequireBearerToken there, which holds a session to its user.
	Principal func(ctx context.Context) string
	// Modes are the modes that the server has; nil is all, Webhook only where
	// Webhooks is set.
	Modes []Mode
	// NoListChanged tells clients that the list of types never changes.
	NoListChanged bool
	// ListTTL is how long a client may keep the list; zero is 5 minutes.
	ListTTL time.Duration
	// PageSize is how many types events/list names at a time; zero is 100.
	PageSize int
	// Heartbeat is the silence on a stream after which it gets a heartbeat; zero
	// is 15 s, at most 30 s.
	Heartbeat time.Duration
	// Recheck is how often a stream's permission is checked anew; zero is 60 s.
	Recheck time.Duration
	// NextPoll is how long clients are to wait between polls; zero is 5 s.
	NextPoll time.Duration
	// MaxReplay is the age of the oldest event that is replayed to a client that
	// comes back; what is left out shows as truncated. Zero is no bound but the
	// backend's. An age is the time since it happened: an event that comes to its
	// backend later than that reaches streams that have caught up, and webhooks,
	// but no poll.
	MaxReplay time.Duration
	// MaxStreams is the most streams of one principal, all who are nobody being
	// one; zero is 1,000. MaxAllStreams is the most there are; zero is 10,000.
	// A listen for changes of the list of types counts as a stream.
	MaxStreams, MaxAllStreams int
	// MaxPolls is the most polls of one principal in a minute; zero is 600. Polls
	// of nobody are not counted: many clients are nobody, and a limit on all of
	// them together would refuse those that keep to NextPoll.
	MaxPolls int
	// Webhooks is set where events are delivered by HTTP requests to clients.
	Webhooks *WebhookConfig
	// Older serves events/* to sessions of older revisions too, those that began
	// with initialize; over HTTP by poll and webhooks alone. Without it they do not
	// see the capability either.
	Older bool
	// Compat speaks to older peers as well: errors have the numbers of the
	// sketch that came before SEP-3415, all of them; the capability also stands
	// at the top level, as events; and sessions are served as with Older.
	Compat bool
	// Logger hears what goes wrong; nil is slog.Default. Nothing of events'
	// data or arguments is logged.
	Logger *slog.Logger
}

// A Server offers types of events to the clients of an MCP server, beside what
// that one offers with the SDK. Its methods may be called from many goroutines.
//
// To put it to work, call Capabilities, make the SDK's server, call Register,
// and serve it by Transport or Handler.
type Server struct {
	config ServerConfig
	log    *slog.Logger
	polls  quota

	webhooks *webhooks // nil without them

	mu         sync.Mutex
	registered bool
	offers     map[string]*offer
	streams    map[*stream]bool
	count      map[string]int         // streams and listens of a principal
	watches    map[chan struct{}]bool // listens
	closed     bool
	closing    context.Context // ended by Shutdown
	end        context.CancelFunc
	idle       chan struct{} // closed when the last stream after closing has ended
}

// NewServer returns a server that offers the types of c. Its error tells which
// field is wrong.
func NewServer(c ServerConfig) (*Server, error) {
	for _, f := range []struct {
		name string
		d    *time.Duration
		zero time.Duration
	}{
		{"Heartbeat", &c.Heartbeat, defaultHeartbeat},
		{"Recheck", &c.Recheck, defaultRecheck},
		{"NextPoll", &c.NextPoll, defaultNextPoll},
		{"ListTTL", &c.ListTTL, defaultListTTL},
		{"MaxReplay", &c.MaxReplay, 0},
	} {
		if *f.d < 0 {
			return nil, fmt.Errorf("mcpevents: ServerConfig.%s is negative", f.name)
		}
		if *f.d == 0 {
			*f.d = f.zero
		}
	}
	for _, f := range []struct {
		name string
		n    *int
		zero int
	}{
		{"PageSize", &c.PageSize, defaultPageSize},
		{"MaxStreams", &c.MaxStreams, defaultStreams},
		{"MaxAllStreams", &c.MaxAllStreams, defaultAll},
		{"MaxPolls", &c.MaxPolls, defaultPolls},
	} {
		if *f.n < 0 {
			return nil, fmt.Errorf("mcpevents: ServerConfig.%s is negative", f.name)
		}
		if *f.n == 0 {
			*f.n = f.zero
		}
	}
	if c.Heartbeat > maxHeartbeat {
		return nil, fmt.Errorf("mcpevents: ServerConfig.Heartbeat is over %v", maxHeartbeat)
	}
	for _, m := range c.Modes {
		if m != Poll && m != Push && m != Webhook {
			return nil, fmt.Errorf("mcpevents: ServerConfig.Modes: %q is no mode", m)
		}
		if m == Webhook && c.Webhooks == nil {
			return nil, errors.New("mcpevents: ServerConfig.Modes has webhook, and Webhooks is nil")
		}
	}
	if c.Principal == nil {
		c.Principal = userOf
	}
	c.Older = c.Older || c.Compat
	s := &Server{
		config: c, log: c.Logger, polls: quota{max: c.MaxPolls},
		offers: map[string]*offer{}, streams: map[*stream]bool{}, count: map[string]int{}, watches: map[chan struct{}]bool{},
		idle: make(chan struct{}),
	}
	s.closing, s.end = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.Default()
	}
	if c.Webhooks != nil {
		var err error
		if s.webhooks, err = newWebhooks(s, *c.Webhooks); err != nil {
			return nil, err
		}
	}
	for _, t := range c.Types {
		if err := s.Offer(t); err != nil {
			s.detachLocked() // nobody else has it yet
			return nil, err
		}
	}
	return s, nil
}

// userOf is the principal of the SDK's bearer middleware.
func userOf(ctx context.Context) string {
	if t := auth.TokenInfoFromContext(ctx); t != nil {
		return t.UserID
	}
	return ""
}

// Capabilities adds the extension to what a server says of itself. Call it with
// the ServerOptions.Capabilities that the SDK's server is made with.
func (s *Server) Capabilities(caps *mcp.ServerCapabilities) {
	caps.AddExtension(Extension, s.settings())
}

// settings are the extension's settings object.
func (s *Server) settings() map[string]any {
	m := map[string]any{}
	if !s.config.NoListChanged {
		m["listChanged"] = true
	}
	return m
}

// Shutdown ends what is open: streams get their closing result, and no new ones
// are taken. It returns when the last has ended, or ctx's error. A stream whose
// reader has stopped reading ends with its write deadline.
//
// Under an http.Server call it, or Close, before the Shutdown of that one, or
// give Close to its RegisterOnShutdown: the http.Server waits for what stands
// open. So over HTTP listens of the SDK's and the streams of sessions of older
// revisions end as well, and are not waited for here.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.end()
		s.pokeLocked("", nil)
		s.detachLocked()
		if len(s.streams)+len(s.watches) == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close is Shutdown that waits for 5 s at most.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}

// names are those of the types, sorted.
func (s *Server) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.offers))
}
