package mcpevents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/attend-go/attend/mcpevents/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A SessionConfig says how a session is made, and what it takes from a server
// that may be hostile. The zero value is ready to use.
type SessionConfig struct {
	// ProtocolVersion is what the client asks for first; empty is the newest one
	// that the SDK has.
	ProtocolVersion string
	// Compat accepts the capability where older servers have it, at
	// capabilities.events.
	Compat bool
	// RequestTimeout is how long a request other than a stream may take; zero is
	// a minute, which leaves room for servers that hold a poll for a while.
	RequestTimeout time.Duration
	// MaxBuffered is how many notifications of one stream may wait for a slow
	// reader on a pipe, where nothing else can hold the server back; zero is
	// 1000. Past it the stream ends with [ErrOverflow]. Over HTTP the server is
	// held back instead.
	MaxBuffered int
	// MaxBufferedBytes is the same in bytes; zero is 32 MiB.
	MaxBufferedBytes int
	// MaxEventBytes is the most that the data of one event may have; zero is
	// 1 MiB. A larger one is dropped.
	MaxEventBytes int
	// MaxMessageBytes is the most that one message may have; zero is 16 MiB. A
	// larger one is passed over: requests of the extension that wait for an answer
	// end with [ErrTooLarge] then, over HTTP the one that it is for, on a pipe all.
	// A transport that is none of the SDK's for HTTP, commands or readers and
	// writers has its own limit, which ends the session.
	MaxMessageBytes int
	// MaxTypes is the most types of events that a catalogue may have; zero is
	// 10,000. Its size is bounded by MaxMessageBytes for all pages together.
	MaxTypes int
	// OnStray hears of notifications of the extension that belong to no stream
	// of this session; method is empty where there is none. It is called from
	// the goroutines that read, and must not block. Nil: nobody does, but each
	// [FollowConfig.OnTrouble].
	OnStray func(method string)
}

func (c SessionConfig) withDefaults() SessionConfig {
	c.RequestTimeout = cmp.Or(max(c.RequestTimeout, 0), time.Minute)
	c.MaxBuffered = cmp.Or(max(c.MaxBuffered, 0), 1000)
	c.MaxBufferedBytes = cmp.Or(max(c.MaxBufferedBytes, 0), 32<<20)
	c.MaxEventBytes = cmp.Or(max(c.MaxEventBytes, 0), 1<<20)
	c.MaxMessageBytes = cmp.Or(max(c.MaxMessageBytes, 0), 16<<20)
	c.MaxTypes = cmp.Or(max(c.MaxTypes, 0), 10_000)
	return c
}

// maxWrite is how long a server on a pipe may leave a message unread.
const maxWrite = 30 * time.Second

// A Session is a session of the SDK with the extension beside it. It is
// disposable: once Done is closed it is of no use any more, and another one is
// made with [Connect]. Its methods may be called from several goroutines, and
// streams and followers share it.
//
// On a pipe any trouble of the transport ends the session. Over HTTP each request
// of the extension stands alone, so that trouble ends that one alone.
type Session struct {
	cfg        SessionConfig
	link       *wire.Client
	sdk        *mcp.ClientSession
	offered    bool
	announces  bool // list_changed
	stateless  bool
	catalogue  *catalogue
	ctx        context.Context // of what the session runs by itself
	cancel     context.CancelFunc
	wg         sync.WaitGroup
	watchOnce  sync.Once
	closeOnce  sync.Once
	closeError error

	mu     sync.Mutex
	err    error
	strays map[chan string]bool // of the followers
	done   chan struct{}
}

// Connect connects c over t. The requests of the extension do not go through the
// SDK's session and its middleware, but beside it: on a pipe (any transport but
// one) over the same pipe, and for [mcp.StreamableClientTransport] as HTTP
// requests of their own, made with its Endpoint, HTTPClient and OAuthHandler. To
// change what HTTP sends, wrap the client's RoundTripper, not the transport.
//
// Every request of the session, those of the SDK too, declares the extension
// among the client's capabilities: nothing is to be set at c, nothing is changed
// there, and many sessions may be made of one c at the same time.
//
// It takes a minute at most, or what ctx allows.
func Connect(ctx context.Context, c *mcp.Client, t mcp.Transport, cfg SessionConfig) (*Session, error) {
	if c == nil || t == nil {
		return nil, errors.New("mcpevents: Connect needs a client and a transport")
	}
	s := &Session{cfg: cfg.withDefaults(), strays: map[chan string]bool{}, done: make(chan struct{})}
	s.catalogue = newCatalogue()
	s.link = wire.Over(t, wire.ClientConfig{
		Extension: Extension, Prefix: "notifications/events/", MaxMessage: s.cfg.MaxMessageBytes,
		MaxQueue: s.cfg.MaxBuffered, MaxBytes: s.cfg.MaxBufferedBytes, MaxWrite: maxWrite, Stray: s.stray,
	})
	ctx, stop := context.WithTimeoutCause(ctx, time.Minute, ErrTimeout)
	defer stop()
	sdk, err := c.Connect(ctx, s.link.Transport(), &mcp.ClientSessionOptions{ProtocolVersion: cfg.ProtocolVersion})
	if err != nil {
		s.link.End()
		s.link.Close()
		if st := s.link.Status(); st != nil {
			return nil, fmt.Errorf("mcpevents: connect: %w: %w", &StatusError{Status: st.Status, RetryAfter: st.RetryAfter}, err)
		}
		return nil, fmt.Errorf("mcpevents: connect: %w", err)
	}
	s.sdk = sdk
	init := sdk.InitializeResult()
	s.stateless = init.ProtocolVersion >= firstStateless
	s.link.Ready(init.ProtocolVersion, sdk.ID(), s.stateless)
	s.negotiate(init.Capabilities)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(func() {
		err := sdk.Wait()
		s.fail(err)
		s.link.End()
	})
	return s, nil
}

// negotiate finds the extension among the server's capabilities. Its settings are
// an object, never true.
func (s *Session) negotiate(caps *mcp.ServerCapabilities) {
	var settings map[string]any
	if caps != nil {
		settings, s.offered = caps.Extensions[Extension].(map[string]any)
	}
	if !s.offered && s.cfg.Compat {
		var older struct {
			Events map[string]any `json:"events"`
		}
		if json.Unmarshal(s.link.ServerCapabilities(), &older) == nil && older.Events != nil {
			settings, s.offered = older.Events, true
		}
	}
	s.announces, _ = settings["listChanged"].(bool)
}

// MCP is the SDK's session, for tools and the rest of the protocol. It is closed
// with this one.
func (s *Session) MCP() *mcp.ClientSession { return s.sdk }

// Offered reports whether the server offers the extension. Without it no call of
// this package sends anything.
func (s *Session) Offered() bool { return s.offered }

// Done is closed when the session is of no use any more.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is why the session is of no use any more, and nil before. It is always an
// [ErrClosed].
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session: streams end with [ErrClosed], and no goroutine is left.
// It waits for calls of the SDK that are under way, so cancel those first.
func (s *Session) Close() error {
	s.closeOnce.Do(func() {
		s.fail(nil)
		s.cancel()
		s.link.End()
		s.closeError = s.sdk.Close()
		s.link.Close()
		s.wg.Wait()
	})
	return s.closeError
}

// fail marks the session; only the first cause counts.
func (s *Session) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = ErrClosed
	if cause != nil {
		s.err = fmt.Errorf("%w: %w", ErrClosed, cause)
	}
	close(s.done)
}

// stray hears of notifications that belong to nobody. A change of the catalogue
// is taken even so: older servers do not say whom it is for.
func (s *Session) stray(method string) {
	if method == noteListChanged {
		s.catalogue.outdateSoon()
	}
	if s.cfg.OnStray != nil {
		s.cfg.OnStray(method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for strays := range s.strays {
		select {
		case strays <- method:
		default: // a flood of them is told in part
		}
	}
}

// hearStrays has a channel hear of strays, until stop is called.
func (s *Session) hearStrays(strays chan string) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays[strays] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.strays, strays)
	}
}

// start sends a call of the extension.
func (s *Session) start(ctx context.Context, method string, params any, buffered int) (*wire.Exchange, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	if !s.offered {
		return nil, ErrNotOffered
	}
	x, err := s.link.Start(ctx, method, params, buffered)
	if err != nil {
		return nil, fmt.Errorf("mcpevents: %w", err)
	}
	return x, nil
}

// ask sends a request of the extension and decodes its result.
func (s *Session) ask(ctx context.Context, method string, params, result any) error {
	ctx, stop := context.WithTimeoutCause(ctx, s.cfg.RequestTimeout, ErrTimeout)
	defer stop()
	x, err := s.start(ctx, method, params, 0)
	if err != nil {
		return err
	}
	defer x.Close()
	for err == nil {
		var n wire.Note
		if n, err = x.Next(ctx); err == nil && n.Over { // it is the answer, or hides whether there is one
			return ErrTooLarge
		}
	}
	raw, ok := x.Result()
	if !ok {
		return s.trouble(ctx, err)
	}
	var kind struct {
		ResultType *string `json:"resultType"`
	}
	if !isObject(raw) || json.Unmarshal(raw, &kind) != nil || json.Unmarshal(raw, result) != nil {
		return fmt.Errorf("%w: the result of %s is malformed", ErrProtocol, method)
	}
	return checkComplete(kind.ResultType)
}

// answered reports whether err has an answer of a kind that is known, so that the
// server knows the session.
func answered(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind != ""
}

// trouble is how a call ended whose context is ctx. It marks a session that the
// server has forgotten.
func (s *Session) trouble(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = asAnswer(err)
	if e, ok := errors.AsType[*StatusError](err); ok && e.Status == 404 && s.sdk.ID() != "" && !answered(err) {
		s.fail(mcp.ErrSessionMissing)
		return fmt.Errorf("%w: %w", s.Err(), err)
	}
	return err
}
