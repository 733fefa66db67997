package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// A plan is all that attend serve does with its settings. Nothing of it is opened
// or started.
type plan struct {
	place    place
	judge    string        // its name
	engine   engine.Config // but for its store
	server   server.Config // but for its metrics
	listen   server.Listen
	warnings []string
}

// at says where the server would listen.
func (p *plan) at() string {
	if p.listen.Socket != "" {
		return "unix:" + p.listen.Socket
	}
	return "http://" + net.JoinHostPort(p.listen.Host, strconv.Itoa(p.listen.Port))
}

// plan checks the settings. An error says which one is wrong, and where it was
// set.
func (s *serveSettings) plan(f *flags, log *slog.Logger) (*plan, error) {
	p := new(plan)
	for _, step := range []func(*flags, *plan) error{s.planStore, s.planEngine, s.planServer} {
		if err := step(f, p); err != nil {
			return nil, err
		}
	}
	p.place.log, p.engine.Logger, p.server.Logger = log, log, log
	// What is left is said by those who know: an engine and a server on nothing.
	c := p.engine
	c.Store = memory.New()
	e, err := engine.New(c)
	if err == nil {
		_, err = server.New(e, c.Store, p.server)
	}
	if err != nil {
		return nil, f.named(err)
	}
	return p, nil
}

// named says of an option of engine or server which setting it is.
func (f *flags) named(err error) error {
	e, ok := errors.AsType[*attend.InvalidError](err)
	if !ok {
		return err
	}
	name := map[string]string{
		"Hosts": "allow-hosts", "Origins": "allow-origins", "Scope": "cloudevents-scope",
	}[e.Field]
	if name == "" {
		return fmt.Errorf("%s: want %s", e.Field, e.Want)
	}
	return f.at(name, errors.New("want "+e.Want))
}

func (s *serveSettings) planStore(f *flags, p *plan) error {
	place, name, err := placeWith(s.store, s.storePrefix)
	if err != nil {
		return f.at(name, err)
	}
	place.retain = attend.Retain{Count: max(s.retainCount, 0), Verdicts: max(s.retainCount, 0), Age: s.retainAge}
	place.listen, place.log = s.storeListen, slog.New(slog.DiscardHandler)
	switch {
	case s.storeListen != "" && place.kind != kindPostgres:
		return f.at("store-listen", errors.New("only PostgreSQL has one"))
	case s.storeListen == "" && place.kind == kindPostgres:
		place.listen = place.at
	case s.storeListen == "none":
		place.listen = ""
	}
	p.place = place
	if name, err := p.place.check(); err != nil {
		return f.at(name, err)
	}
	return nil
}

func (s *serveSettings) planEngine(f *flags, p *plan) (err error) {
	kinds, err := readKinds(s.kinds, s.defaultKind)
	if err != nil {
		return f.at("kinds", err)
	}
	if !kinds.wakes() {
		p.warnings = append(p.warnings, noActs)
	}
	p.engine, p.judge = s.engine, s.judge
	p.engine.Kind, p.engine.OmitVerdicts = kinds.kind, !s.record
	p.engine.Sink, p.engine.DeadLetter = attend.LogOnly, attend.LogLetters
	if p.engine.Judge, err = s.judgeOf(f); err != nil {
		return err
	}
	if p.engine.Guidance, err = loadText(s.guidance); err != nil {
		return f.at("guidance", err)
	}
	criteria, err := loadTexts(s.criteria, fitsRoute)
	if err != nil {
		return f.at("criteria", err)
	}
	if len(criteria) > 0 {
		p.engine.Criteria = make(map[attend.Route]string)
	}
	for route, text := range criteria {
		p.engine.Criteria[attend.Route(route)] = text
	}
	if p.engine.Predicates, err = loadTexts(s.predicates, fitsQuestion); err != nil {
		return f.at("predicates", err)
	}
	return nil
}

func (s *serveSettings) planServer(f *flags, p *plan) (err error) {
	if p.server.Tokens, err = loadTokens(f, s.token, s.tokenFile); err != nil {
		return err
	}
	p.server.Hosts, p.server.Origins, p.server.CloudEventScope = s.allowHosts, s.allowOrigins, s.eventScope
	p.listen = server.Listen{Socket: s.socket, Drain: s.drain, Notice: s.notice, Insecure: s.insecure}
	if s.notice >= s.drain {
		return f.at("drain-notice", fmt.Errorf("want less than the %s of --drain, which it is part of", shortDuration(s.drain)))
	}
	if s.socket != "" {
		return nil
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s.host, "["), "]")
	if _, _, err := net.SplitHostPort(host); err == nil || strings.ContainsAny(host, "/ @") {
		return f.at("host", errors.New("want a name or an address alone; the port is --port"))
	}
	p.listen.Host, p.listen.Port = host, s.port
	if p.server.Tokens != nil || loopback(host) {
		return nil
	}
	if s.insecure {
		p.warnings = append(p.warnings, "everybody who can reach "+host+" may bring events and read decisions; see --token")
	} else {
		return f.at("host", fmt.Errorf("%s is not a loopback address, and there is no token: "+
			"give --token or --token-file, or --insecure to serve everybody who can reach it", host))
	}
	return nil
}

// loopback reports whether nobody on another machine reaches a host. A name is
// looked up only when it is listened on, so it is none but for localhost.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
