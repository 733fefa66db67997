package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/attend-go/attend/core/engine"
)

// A serveSettings is what can be said to attend serve, as it was said.
type serveSettings struct {
	config                          string
	store, storePrefix, storeListen string
	judge, judgeModel               string
	judgeEndpoint                   string
	judgeContextTokens              int
	judgeLongContext                bool
	kinds, defaultKind              string
	guidance, criteria, predicates  string

	host, socket             string
	port                     int
	token, tokenFile         string
	insecure                 bool
	allowHosts, allowOrigins []string
	eventScope               string
	drain, notice            time.Duration

	retainCount int // negative: no limit
	retainAge   time.Duration

	logFormat, logLevel string

	engine engine.Config // without what is made of the texts
	record bool
}

// The defaults of attend serve that are not the engine's.
const (
	defaultHost        = "127.0.0.1"
	defaultPort        = 8787
	defaultRetainCount = 100_000
	defaultRetainAge   = 720 * time.Hour
	defaultDrain       = 10 * time.Second
)

// The parts of the table of settings, in order.
const (
	groupStore    = "Store"
	groupJudge    = "Events and judge"
	groupServer   = "Server"
	groupWindows  = "Windows and decisions"
	groupRunning  = "Running"
	groupTrouble  = "Logs and this file"
	maxSocketPath = 103 // bytes, on every system
)

// serveTable makes the settings of attend serve. It is the one table of them.
func serveTable(f *flags) *serveSettings {
	s := &serveSettings{
		port: defaultPort, retainCount: defaultRetainCount, retainAge: defaultRetainAge, drain: defaultDrain, record: true,
	}
	f.group = groupStore
	f.text(&s.store, "store", kindMemory, "`store`: "+storeForms).shown = shownURL
	f.text(&s.storePrefix, "store-prefix", "", "`prefix` of tables (default attend_) or keys (default attend:{app}:)")
	f.text(&s.storeListen, "store-listen", "", "`url` of PostgreSQL itself, for notifications, where the store's goes through a\npooler; none polls (default the store's)").shown = shownURL
	f.count(&s.retainCount, "retain-count", defaultRetainCount, true, "decisions and dead letters that the log keeps, and as many rows that explain;\n0 keeps all")
	f.span(&s.retainAge, "retain-age", defaultRetainAge, 0, maxDuration, "how long the log keeps a row; 0s keeps all")

	f.group = groupJudge
	f.text(&s.kinds, "kinds", "", "`JSON` of event name to kind, or a file of it or of YAML; a name may end in *").shape = shapeMapping
	f.choice(&s.defaultKind, "default-kind", "consequence", "`kind` of every other name", kindNames()...)
	f.text(&s.judge, "judge", judgeRule, "`judge`: rule; several with commas are a fallback chain").shape = shapeList
	f.text(&s.judgeModel, "judge-model", "", "`model` of a hosted judge")
	f.text(&s.judgeEndpoint, "judge-endpoint", "", "`url` of a hosted judge that is not its provider's own")
	f.count(&s.judgeContextTokens, "judge-context-tokens", 0, false, "how much a hosted judge can read").def = ""
	f.boolean(&s.judgeLongContext, "judge-long-context", "ask a hosted judge for its long context")
	f.text(&s.guidance, "guidance", "", "`text` that a judge is told with each window, or @FILE")
	f.text(&s.criteria, "criteria", "", "`JSON` of route to when it is taken, or @FILE").shape = shapeMapping
	f.text(&s.predicates, "predicates", "", "`JSON` of name to a yes-or-no question, or @FILE").shape = shapeMapping

	f.group = groupServer
	f.text(&s.host, "host", defaultHost, "`address` to listen on")
	f.port(&s.port, "port", defaultPort, "port to listen on; 0 picks a free one")
	f.text(&s.socket, "socket", "", "`path` of a unix socket to listen on instead").set = func(v string) error {
		if len(v) > maxSocketPath {
			return fmt.Errorf("want a path of at most %d bytes", maxSocketPath)
		}
		s.socket = v
		return nil
	}
	f.text(&s.token, "token", "", "bearer `token` with every right on every scope; better in the environment").shown = hidden
	f.text(&s.tokenFile, "token-file", "", "YAML `file` of tokens, each with a name, scopes and rights")
	f.boolean(&s.insecure, "insecure", "listen without a token on an address that is not loopback")
	f.words(&s.allowHosts, "allow-hosts", "names under which a proxy on this machine is known")
	f.words(&s.allowOrigins, "allow-origins", "origins of pages that may use the server")
	f.text(&s.eventScope, "cloudevents-scope", "", "`template` that makes the scope of a CloudEvent (default {source}/{subject})")
	f.span(&s.drain, "drain", defaultDrain, time.Millisecond, time.Hour, "how long the end may take after SIGTERM")

	f.span(&s.notice, "drain-notice", 0, 0, time.Hour, "how long of that readiness says 503 before requests are refused")

	f.group = groupWindows
	settings(f, &s.engine)
	f.group = groupRunning
	operation(f, s)

	f.group = groupTrouble
	f.choice(&s.logFormat, "log-format", "", "`format` of the log: text or json (default text on a terminal, else json)", logText, logJSON)
	f.choice(&s.logLevel, "log-level", "info", "`level` of the log: debug, info, warn or error", "debug", "info", "warn", "error")
	f.text(&s.config, settingConfig, "", "YAML `file` with any of these settings, by the same names").inner = true
	return s
}

// hidden stands for a value that is a secret.
func hidden(string) string { return "set" }

// operation makes the engine's settings that decide nothing.
func operation(f *flags, s *serveSettings) {
	const year = 365 * 24 * time.Hour
	c := &s.engine
	f.number(&c.WindowShare, "window-share", "0.5", "a number above 0 and up to 1", "share of what a judge can read that a window may fill",
		func(n float64) bool { return n > 0 && n <= 1 })
	f.span(&c.JudgeTimeout, "judge-timeout", 15*time.Second, time.Millisecond, year, "how long a judge may take")
	f.span(&c.DeliveryTimeout, "delivery-timeout", 10*time.Second, time.Millisecond, year, "how long a delivery may take")
	f.span(&c.CaptureTimeout, "capture-timeout", 500*time.Millisecond, time.Millisecond, year, "how long facts and images for a judge may take")
	f.span(&c.SweepInterval, "sweep-interval", time.Second, time.Millisecond, year, "between looks at overdue scopes")
	f.span(&c.SweepGrace, "sweep-grace", 2*time.Second, time.Millisecond, year, "how long a scope is left to the process that has it")
	f.count(&c.SweepLimit, "sweep-limit", 100, false, "overdue scopes in a page")
	f.span(&c.ShutdownGrace, "shutdown-grace", 10*time.Second, time.Millisecond, year, "for what is under way at the end")
	f.count(&c.MaxCalls, "max-calls", 64, false, "judge calls at a time")
	f.count(&c.ResidentBytes, "resident-bytes", 64<<20, false, "states of idle scopes that stay in memory")
	f.toggle(&s.record, "record-verdicts", "true", "keep rows that explain what woke nobody")
}

func (f *flags) port(p *int, name string, def int, usage string) *setting {
	return f.parsed(name, "port", strconv.Itoa(def), usage, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 65535 {
			return errors.New("want a port from 0 to 65535")
		}
		*p = n
		return nil
	})
}
