package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/attend-go/attend/core/engine"
	"github.com/spf13/cobra"
)

// A replayCommand is what the flags of attend replay say.
type replayCommand struct {
	judge, kinds, defaultKind string
	store, html               string
	maxActsPerHour            float64 // infinite: nobody asked
	json, strict              bool
	config                    engine.Config
}

func newReplay() *cobra.Command {
	r := &replayCommand{maxActsPerHour: math.Inf(1)}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Runs a recording through attend and prints what would have happened",
		Long: `Runs a recording through attend on its own clock, as fast as it goes: prints
each settle, verdict and decision, and then a table. --html draws it as well.

FILE is NDJSON in the form of POST /v1/ingest, - is standard input. A line is an
event with its scope (scope, id, at, name, text, data), or {"scope":…,"flush":true}
or {"scope":…,"end":true}. It happens at its own at, in Unix milliseconds; one
without, or with an at before that of an earlier line, happens with the latest
before. A line is at most 1 MiB; a bad one is left out and reported on standard
error, and the exit code is 1 for it only with --strict.

The same file and flags give the same bytes each time.`,
		Example: `  attend replay --kinds examples/data/kinds.json examples/data/github-day.ndjson
  attend replay --kinds '{"build.*":"closing","chat":"flush"}' --closing-grace 2s - <day.ndjson
  attend replay --kinds examples/data/kinds.json --judge script:examples/data/answers.ndjson \
    --max-acts-per-hour 1 examples/data/github-day.ndjson`,
		Args: oneFile,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []cobra.Completion{"ndjson", "jsonl"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	f := newFlags(cmd)
	f.text(&r.kinds, "kinds", "", "`JSON` of event name to kind, or a file of it; a name may end in *")
	f.choice(&r.defaultKind, "default-kind", "consequence", "`kind` of every other name", kindNames()...)
	f.text(&r.judge, "judge", "rule", "`judge`: rule, or script:FILE for answers recorded earlier")
	f.text(&r.store, "store", "memory", "`store` that it runs through, an empty one:\n"+storeForms)
	f.number(&r.maxActsPerHour, "max-acts-per-hour", "", "a number from 0 on",
		"mark the lowest act threshold that keeps to this",
		func(n float64) bool { return n >= 0 })
	f.text(&r.html, "html", "", "`FILE` to draw it in, one page for a browser")
	f.boolean(&r.json, "json", "print a line of JSON for each step, and one for the table")
	f.boolean(&r.strict, "strict", "exit with 1 if a line was rejected")
	settings(f, &r.config)
	completeWords(cmd, "judge", "rule", "script:")
	completeWords(cmd, "default-kind", kindNames()...)
	completeStore(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.readEnvironment(); err != nil {
			return err
		}
		return r.run(cmd, f, args[0])
	}
	return cmd
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("replay wants one FILE, or - for standard input, and got %d", len(args))
	}
	return nil
}

func (r *replayCommand) run(cmd *cobra.Command, f *flags, file string) (err error) {
	log := newLogger(cmd.ErrOrStderr())
	kinds, err := readKinds(r.kinds, r.defaultKind)
	if err != nil {
		return f.at("kinds", err)
	}
	judge, err := loadJudge(r.judge)
	if err != nil {
		return f.at("judge", err)
	}
	place, err := placeOf(r.store)
	if err != nil {
		return f.at("store", err)
	}
	r.config.Kind, r.config.Judge = kinds.kind, judge
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return &failure{err}
		}
		defer f.Close()
		in = f
	}
	if r.config.Store, err = openEmpty(cmd.Context(), place, log); err != nil {
		return &failure{err}
	}
	defer func() {
		if closed := closeStore(r.config.Store); err == nil && closed != nil {
			err = &failure{closed}
		}
	}()
	out := bufio.NewWriter(cmd.OutOrStdout())
	p, err := newPlayer(r.config, r.printer(out, cmd.OutOrStdout(), file), log)
	if err != nil {
		return err
	}
	if !kinds.wakes() {
		log.Warn(noActs)
	}
	if err := r.play(cmd.Context(), p, in, out); err != nil {
		return &failure{err}
	}
	return nil
}

// play prints the replay of in to out.
func (r *replayCommand) play(ctx context.Context, p *player, in io.Reader, out *bufio.Writer) error {
	if err := p.play(ctx, newLineReader(in, maxLine), out.Flush); err != nil {
		out.Flush() // what there is
		return err
	}
	var most *float64
	if !math.IsInf(r.maxActsPerHour, 1) {
		most = &r.maxActsPerHour
	}
	t, err := p.result(most)
	if err != nil {
		return err
	}
	if err := p.out.table(t); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if r.strict && t.Rejected > 0 {
		return fmt.Errorf("%s rejected", count(t.Rejected, "line"))
	}
	return nil
}

func (r *replayCommand) printer(out *bufio.Writer, stdout io.Writer, file string) printer {
	var p printer = &textPrinter{w: out, color: colored(stdout)}
	if r.json {
		p = newJSONPrinter(out)
	}
	if r.html == "" {
		return p
	}
	if file == "-" {
		file = "standard input"
	}
	return &pagePrinter{printer: p, file: r.html, title: filepath.Base(file)}
}

// colored reports whether w is a terminal and nobody asked for no color
// (no-color.org).
func colored(w io.Writer) bool {
	return terminal(w) && !dumb() && os.Getenv("NO_COLOR") == ""
}

// dumb reports whether a terminal can do nothing but print.
func dumb() bool { return strings.EqualFold(os.Getenv("TERM"), "dumb") }
