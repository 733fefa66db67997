package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/problem"
)

// A visit is one request on its way through the front: who asks, and what
// became of it.
type visit struct {
	began time.Time
	route string // "none" where there is none
	who   *access.Principal
	panic bool
}

// serve is the front: every request comes in here.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	a := newAnswer(w, s.cfg.WriteTimeout)
	found, missing, allow := find(s.mux, r)
	v := &visit{began: time.Now(), route: "none"}
	open := false
	if found != nil {
		v.route, open = found.pattern, found.need == needNothing
	}
	if r.Body != nil && r.Body != http.NoBody {
		b := &body{ReadCloser: r.Body, a: a, within: s.cfg.ReadTimeout}
		own := *r // the server looks at its own for how the body ended
		r, own.Body = &own, b
		defer b.done()
	}
	defer s.leave(a, r, v)
	if !open {
		if !s.gate.enter(v.route) {
			a.Header().Set("Connection", "close")
			problem.Write(a, unready("the server is draining"))
			return
		}
		defer s.gate.leave(v.route)
	}
	if p := s.guard.check(r, open); p != nil {
		problem.Write(a, p)
		return
	}
	if !open {
		who, p := s.who(r)
		if p != nil {
			problem.Write(a, p)
			return
		}
		v.who = who
		r = r.WithContext(access.With(r.Context(), who))
	}
	switch {
	case found == nil:
		if allow != "" {
			a.Header().Set("Allow", allow)
		}
		problem.Write(a, missing)
		return
	case found.need == needRead && !v.who.Read:
		problem.Write(a, problem.NoRead())
		return
	}
	s.mux.ServeHTTP(a, r)
}

// who says who a request is from, or what is to be answered to nobody.
func (s *Server) who(r *http.Request) (*access.Principal, *problem.Problem) {
	switch {
	case s.cfg.Principal != nil:
		p, err := s.cfg.Principal(r)
		if err != nil {
			s.cfg.Logger.Error("attend: nobody knows who a request is from", "err", err)
			return nil, unready("it can't be told now who you are")
		}
		if p == nil {
			return nil, problem.With(http.StatusUnauthorized, "nobody knows you")
		}
		return p, nil
	case s.cfg.Tokens == nil:
		return s.anyone, nil
	}
	secret, ok := access.Bearer(r)
	if !ok {
		return nil, problem.With(http.StatusUnauthorized, "a bearer token is wanted")
	}
	if p := s.cfg.Tokens.Find(secret); p != nil {
		return p, nil
	}
	return nil, problem.With(http.StatusUnauthorized, "the token is not known")
}

// leave ends a visit: a panic is answered, and the visit logged. What a panic
// says may hold anything, so its text is left out; the stack has none of it.
func (s *Server) leave(a *answer, r *http.Request, v *visit) {
	defer a.done()
	if p := recover(); p != nil {
		v.panic = true
		err, _ := p.(error)
		abort := errors.Is(err, http.ErrAbortHandler)
		if !abort {
			s.cfg.Logger.Error("attend: a handler panicked", "route", v.route, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
		if abort || a.status != 0 {
			defer panic(http.ErrAbortHandler) // what was written must not look like all
		} else {
			problem.Write(a, problem.With(http.StatusInternalServerError, "the server has a fault, which it has logged"))
		}
	}
	s.note(a, r, v)
}

// note logs a request: nothing of what it brought, and nothing of its path but
// the route.
func (s *Server) note(a *answer, r *http.Request, v *visit) {
	status := a.status
	if status == 0 && !v.panic {
		status = http.StatusOK // the server writes it
	}
	level := slog.LevelDebug
	switch {
	case v.panic || status >= 500:
		level = slog.LevelWarn
	case status >= 400:
		level = slog.LevelInfo
	}
	if !s.cfg.Logger.Enabled(r.Context(), level) {
		return
	}
	list := []slog.Attr{
		slog.String("route", v.route), slog.Int("status", status), slog.Int64("bytes", a.bytes),
		slog.Float64("ms", float64(time.Since(v.began).Microseconds())/1000), slog.String("from", r.RemoteAddr),
	}
	if v.who != nil && v.who.Name != "" {
		list = append(list, slog.String("principal", v.who.Name))
	}
	s.cfg.Logger.LogAttrs(r.Context(), level, "request", list...)
}
