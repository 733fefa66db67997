package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/attend-go/attend/cmd/attend/internal/demo"
	"github.com/spf13/cobra"
)

// newDemo is attend demo: what a person runs first.
func newDemo() *cobra.Command {
	var speed float64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Shows what attend does, with a story of two seconds",
		Long: `Shows what attend does. A CI server in this process streams a short story as MCP
events over HTTP; attend settles them into windows, a judge says what the agent
should do about each, and the decisions come out. It needs no key, no database
and no network but loopback.

Each line begins with the seconds since the start.`,
		Example: `  attend demo
  attend demo --speed 0.5`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.number(&speed, "speed", "1", "a number from 0.1 to 10", "how much faster than the story it runs",
		func(n float64) bool { return n >= 0.1 && n <= 10 })
	f.boolean(&asJSON, "json", "print a line of JSON for each step, and one for the result")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.readEnvironment(); err != nil {
			return err
		}
		p := demoPrinter{w: cmd.OutOrStdout(), color: colored(cmd.OutOrStdout()), json: asJSON}
		result, err := demo.Run(cmd.Context(), demo.Config{Speed: speed, Print: p.step})
		if err = errors.Join(err, p.err); err == nil {
			err = p.result(result)
		}
		if err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}

// A demoPrinter prints the demo's steps.
type demoPrinter struct {
	w           io.Writer
	color, json bool
	err         error // the first one
}

type demoStep struct {
	SinceMs int64  `json:"sinceMs"`
	Step    string `json:"step"`
	What    string `json:"what"`
	Text    string `json:"text"`
	Notice  string `json:"notice,omitempty"`
}

type demoResult struct {
	Events     int `json:"events"`
	Deliveries int `json:"deliveries"`
	Wakes      int `json:"wakes"` // of an agent that hears every event
}

func (p *demoPrinter) step(s demo.Step) {
	if p.json {
		p.print(demoStep{s.Since.Milliseconds(), s.Step, s.What, s.Text, s.Notice})
		return
	}
	line := fmt.Sprintf("%5.2f  %-8s %-10s %s\n", s.Since.Seconds(), s.Step, s.What, plain(s.Text))
	if s.Notice != "" {
		for text := range strings.SplitSeq(s.Notice, "\n") {
			line += "       | " + plain(text) + "\n"
		}
	}
	if p.color {
		style := "\x1b[2m" // faint: what the agent does not hear
		if s.Step == "deliver" {
			style = "\x1b[1m"
		}
		line = style + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
	}
	p.write(line)
}

func (p *demoPrinter) result(r demo.Result) error {
	if p.json {
		p.print(demoResult{r.Events, r.Deliveries, r.Events})
		return p.err
	}
	p.write(fmt.Sprintf("\n%s in, %d deliveries out; an agent that hears everything would have woken %d times.\n",
		count(r.Events, "event"), r.Deliveries, r.Events))
	return p.err
}

func (p *demoPrinter) print(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	p.write(string(b) + "\n")
}

func (p *demoPrinter) write(s string) {
	if _, err := io.WriteString(p.w, s); err != nil && p.err == nil {
		p.err = err
	}
}
