package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/stores/postgres"
	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serves apps and agents: events in over HTTP, decisions out over MCP and HTTP",
		Long: `Serves apps and agents: events come in over HTTP, decisions go out over MCP and
HTTP. Once it is ready it prints one line with the addresses, and it runs until
SIGINT or SIGTERM; then it takes no more requests, lets what is under way end, and
exits with 0. After --drain it exits with 1 all the same, at a second signal at
once.

A flag wins over its variable of the environment, and that over the file of
--config. "attend check" with the same flags says what is wrong with them.`,
		Example: `  attend serve --store bolt:attend.db --kinds kinds.json
  attend serve --config /etc/attend.yaml`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	s := serveTable(f)
	f.boolean(&asJSON, "json", "print the line as JSON").inner = true
	completeServe(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.read(); err != nil {
			return err
		}
		log := newServerLogger(cmd.ErrOrStderr(), s.logFormat, s.logLevel)
		p, err := s.plan(f, log)
		if err != nil {
			return err
		}
		p.warn(log)
		ctx, end := untilSignal(log)
		defer end()
		if err := p.serve(ctx, log, ready(cmd.OutOrStdout(), log, p, asJSON)); err != nil {
			return &failure{oneLine(err)}
		}
		return nil
	}
	return cmd
}

// completeServe names the words that some flags take.
func completeServe(cmd *cobra.Command) {
	completeStore(cmd)
	completeWords(cmd, "judge", judgeNames()...)
	completeWords(cmd, "default-kind", kindNames()...)
	completeWords(cmd, "log-format", logText, logJSON)
	completeWords(cmd, "log-level", "debug", "info", "warn", "error")
}

func completeWords(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

func completeStore(cmd *cobra.Command) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("store", cobra.FixedCompletions(
		[]cobra.Completion{"memory", "sqlite:", "bolt:", "postgres://", "redis://"},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)))
}

// warn says what is allowed, and most likely not meant.
func (p *plan) warn(log *slog.Logger) {
	for _, w := range p.warnings {
		log.Warn(w)
	}
}

// untilSignal ends with the first signal that asks the process to end. The second
// one ends the process.
func untilSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				if n > 0 {
					log.Warn("a second signal: the server exits at once", "signal", s.String())
					os.Exit(exitFailed)
				}
				log.Info("the server drains", "signal", s.String())
				cancel()
			case <-done:
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		watch.Wait()
		cancel()
	}
}

// serve opens the store and serves until ctx ends.
func (p *plan) serve(ctx context.Context, log *slog.Logger, ready func(url string)) (err error) {
	store, err := p.place.open(ctx)
	if err != nil && ctx.Err() != nil {
		return nil // it was asked to end before it had begun
	}
	if errors.Is(err, postgres.ErrNotMigrated) {
		return fmt.Errorf("run attend migrate with the same --store and --store-prefix: %w", err)
	}
	if err != nil {
		return err
	}
	var trim sync.WaitGroup
	end := newEnding(ctx, p.listen.Drain)
	defer func() {
		err = errors.Join(err, closeWithin(end.left(), func() error {
			trim.Wait()
			return closeStore(store)
		}))
	}()

	info, _ := debug.ReadBuildInfo()
	m := server.NewMetrics(versionOf(info).Version)
	c := p.engine
	c.Store, c.Sink, c.Observer = m.Store(store), m.Sink("log", c.Sink), m.Observe
	c.Judge = m.Judge(p.judge, c.Judge)
	e, err := engine.New(c)
	if err != nil {
		return err
	}
	p.server.Metrics, p.server.Version = m, versionOf(info).Version
	s, err := server.New(e, c.Store, p.server)
	if err != nil {
		return err
	}

	trimming, stop := context.WithCancel(ctx)
	trim.Go(func() { trimByClock(trimming, store.Log(), p.place.retain.Age, log) })
	defer stop()

	p.listen.Ready = ready
	if err := s.Serve(ctx, p.listen); err != nil {
		return err
	}
	log.Info("the server has ended")
	return nil
}

// An address is the line that a server prints, and its JSON form.
type address struct {
	Base   string `json:"base"`
	Ingest string `json:"ingest"`
	MCP    string `json:"mcp"`
}

// ready prints the line, once.
func ready(w io.Writer, log *slog.Logger, p *plan, asJSON bool) func(url string) {
	return func(url string) {
		a := address{url, url + "/v1/ingest", url + "/mcp"}
		if p.listen.Socket != "" { // no URL has both a socket and a path
			a.Ingest, a.MCP = "/v1/ingest", "/mcp"
		}
		var err error
		if asJSON {
			err = json.NewEncoder(w).Encode(a)
		} else {
			_, err = fmt.Fprintf(w, "attend serves %s, ingest %s, MCP %s\n", a.Base, a.Ingest, a.MCP)
		}
		if err != nil {
			log.Warn("the addresses could not be printed", "err", err)
		}
		log.Info("attend serves", "base", a.Base, "store", p.place.kind, "judge", p.judge, "tokens", p.server.Tokens != nil)
	}
}
