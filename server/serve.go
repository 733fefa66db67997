package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// ErrDrain: something did not end within Listen.Drain, and was cut off. The
// error's text says what.
var ErrDrain = errors.New("server: not all ended in time")

var errCut = errors.New("server: the time to end is over")

// Serve listens, runs the engine, and serves until ctx ends; it returns nil when
// everything has ended by itself. The end goes in this order: readiness says 503;
// after Notice, requests are refused and streams ended with a reason; what is
// under way is waited for; and when nothing brings events any more, the engine's
// Run ends. After Drain what is left is cut off, and the error is [ErrDrain].
//
// Other errors are attend.ErrInvalid for a bad option and for a second call (a
// server serves once, unless it could not listen), [ErrInUse] for a socket, and those of the listener, of the
// connections and of the engine's Run, which nobody else may run then.
func (s *Server) Serve(ctx context.Context, l Listen) error {
	l, err := l.withDefaults()
	if err != nil {
		return err
	}
	if !s.served.CompareAndSwap(false, true) {
		return &attend.InvalidError{Field: "Serve", Want: "one call for a server"}
	}
	s.health.state.CompareAndSwap(stateReady, stateStarting)
	ln, err := l.open(s.closed())
	if err != nil {
		s.health.state.CompareAndSwap(stateStarting, stateReady)
		s.served.Store(false) // nothing has begun: it may be tried elsewhere
		return err
	}
	detached := context.WithoutCancel(ctx)
	requests, cut := context.WithCancelCause(detached)
	defer cut(nil)
	web := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: l.HeaderTimeout, IdleTimeout: l.IdleTimeout, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	fresh := new(freshConns)
	web.ConnState = fresh.note
	running, stop := context.WithCancel(detached)
	defer stop()
	served, ran := make(chan error, 1), make(chan error, 1)
	var accept sync.WaitGroup
	accept.Go(func() { served <- web.Serve(ln) })
	hooks, endHooks := context.WithCancel(running)
	defer endHooks()
	delivered := make(chan error, 1)
	go func() { delivered <- s.Run(hooks) }()
	go func() { ran <- s.engine.Run(running) }() // a judge that never ends may keep it

	begun, giveUp := context.WithCancel(ctx)
	var begin sync.WaitGroup
	begin.Go(func() { s.begin(begun, l, address(ln)) })
	select {
	case <-ctx.Done():
	case err = <-served:
		err = fmt.Errorf("server: serve: %w", err)
	case err = <-ran:
		err = fmt.Errorf("server: run the engine: %w", err)
		ran <- nil
	case err = <-delivered:
		err = fmt.Errorf("server: deliver to webhooks: %w", err)
		delivered <- nil
	}
	giveUp()
	begin.Wait()
	s.health.state.Store(stateDraining)
	end, cancel := context.WithTimeout(context.Background(), l.Drain)
	defer cancel()
	err = errors.Join(err, s.endRequests(end, l, web, fresh, cut))
	accept.Wait()
	endHooks()
	err = errors.Join(err, ended(end, delivered, "deliveries to webhooks"))
	stop()
	return errors.Join(err, ended(end, ran, "the engine, with judge calls or deliveries"))
}

// begin waits until the store answers, and says that the server is ready.
func (s *Server) begin(ctx context.Context, l Listen, url string) {
	for told := false; ; told = true {
		err := s.health.probe(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.cfg.Logger.Warn("attend: the store does not answer; the server is not ready until it does", "err", err)
		}
		select {
		case <-time.After(probeAge):
		case <-ctx.Done():
			return
		}
	}
	if s.health.state.CompareAndSwap(stateStarting, stateReady) && ctx.Err() == nil && l.Ready != nil {
		l.Ready(url)
	}
}

// endRequests ends what clients have begun.
func (s *Server) endRequests(ctx context.Context, l Listen, web *http.Server, fresh *freshConns, cut context.CancelCauseFunc) error {
	s.notice(ctx, l.Notice)
	web.SetKeepAlivesEnabled(false)
	left := s.Drain(ctx)
	if left != nil {
		cut(errCut)
		_ = web.Close() // connections that were cut
		return left
	}
	fresh.close()
	if web.Shutdown(ctx) != nil {
		_ = web.Close() // a client that does not read the end of its answer
	}
	return nil
}

// notice lets the others hear that the server goes away.
func (s *Server) notice(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ended waits for what was told to end, and for a second more than ctx: an engine
// whose ShutdownGrace is as long as Drain still gives its leases back.
func ended(ctx context.Context, done <-chan error, what string) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	more := time.NewTimer(time.Second)
	defer more.Stop()
	select {
	case err := <-done:
		return err
	case <-more.C:
		return fmt.Errorf("%w: %s", ErrDrain, what)
	}
}

// freshConns are the connections that have not brought a request yet. The end of
// a server would wait some seconds for them.
type freshConns struct {
	mu  sync.Mutex
	all map[net.Conn]struct{}
	end bool
}

// note is an http.Server's ConnState.
func (f *freshConns) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(f.all, c)
	case f.end:
		_ = c.Close() // it comes too late
	default:
		if f.all == nil {
			f.all = make(map[net.Conn]struct{})
		}
		f.all[c] = struct{}{}
	}
}

func (f *freshConns) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = true
	for c := range f.all {
		_ = c.Close() // it has asked for nothing
	}
}
