package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// A checked is what attend check finds, and its JSON form.
type checked struct {
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings"`
	Settings []shown  `json:"settings"`
}

// A shown is a setting as it counts.
type shown struct {
	Name  string `json:"name"`
	Value string `json:"value"` // without secrets; empty: nothing
	Place string `json:"place"` // where it was set; empty: nowhere, it is the default
}

func newCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Says what is wrong with the settings of attend serve, and starts nothing",
		Long: `Says what is wrong with the settings of attend serve, in its words, and opens and
starts nothing: no store, no port. It takes the same flags, variables and file,
reads the files that they name, and prints what was set and where. It exits with
0 where serve would start, and with 2 where it would not.`,
		Example: `  attend check --config /etc/attend.yaml
  attend check --config /etc/attend.yaml --json`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	s := serveTable(f)
	f.boolean(&asJSON, "json", "print one line of JSON").inner = true
	completeServe(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := f.read()
		var p *plan
		if err == nil {
			log := newServerLogger(cmd.ErrOrStderr(), s.logFormat, s.logLevel)
			if p, err = s.plan(f, log); err == nil {
				p.warn(log)
			}
		}
		out := cmd.OutOrStdout()
		if asJSON {
			if failed := printJSON(out, f, p, err); failed != nil {
				return &failure{failed}
			}
			return err
		}
		if err != nil {
			return err
		}
		if err := printChecked(out, f, p); err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}

func printJSON(w io.Writer, f *flags, p *plan, err error) error {
	c := checked{OK: err == nil, Warnings: []string{}, Settings: []shown{}}
	if err != nil {
		c.Error = err.Error()
	} else {
		c.Warnings = append(c.Warnings, p.warnings...)
		for _, s := range f.list {
			if !s.inner || s.name == settingConfig {
				c.Settings = append(c.Settings, shown{s.name, s.String(), s.place})
			}
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(c)
}

// printChecked shows what was set, and what serve would do.
func printChecked(w io.Writer, f *flags, p *plan) error {
	b := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range f.list {
		if s.place != "" && (!s.inner || s.name == settingConfig) {
			place := strings.TrimSuffix(s.place, ": "+s.name)
			fmt.Fprintf(b, "%s\t%s\t%s\n", s.name, plain(place), cut(plain(s.String()), 60))
		}
	}
	fmt.Fprintf(b, "attend serve would start: store %s, judge %s, %s\n", p.place.kind, p.judge, p.at())
	return b.Flush()
}
