package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// readEnvironment sets what no flag did from its variable. One that is empty or
// misspelt is an error: an empty ATTEND_TOKEN must not open a server to all.
func (f *flags) readEnvironment() error {
	if err := misspelt(os.Environ(), settingNames(f.cmd.Root())); err != nil {
		return err
	}
	for _, s := range f.list {
		value, ok := os.LookupEnv(s.variable())
		if !ok || !f.offers(s) || f.cmd.Flags().Changed(s.name) || linked(s.variable(), value) {
			continue
		}
		if err := s.take(value, s.variable()); err != nil {
			return fmt.Errorf("%s: %w", s.variable(), err)
		}
	}
	return nil
}

// linked reports whether Kubernetes made a variable, for a Service that is named
// attend: ATTEND_PORT=tcp://10.96.0.7:8787, ATTEND_SERVICE_HOST and others.
func linked(name, value string) bool {
	rest, port := strings.CutPrefix(name, variableOf("port"))
	return port && (strings.HasPrefix(rest, "_") || strings.Contains(value, "://")) ||
		strings.HasPrefix(name, variablePrefix+"SERVICE_")
}

// misspelt refuses a variable that is nearly one of a setting. Others that begin
// with ATTEND_ belong to somebody else.
func misspelt(environment, known []string) error {
	for _, pair := range environment {
		variable, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(variable, variablePrefix)
		name := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		if !ok || slices.Contains(known, name) || linked(variable, value) {
			continue
		}
		if near := nearest(name, known); near != "" {
			return fmt.Errorf("%s: there is no such setting; did you mean %s?", variable, variableOf(near))
		}
	}
	return nil
}

// settingNames are the flags of all commands.
func settingNames(root *cobra.Command) []string {
	var names []string
	for _, cmd := range root.Commands() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	slices.Sort(names)
	return slices.Compact(names)
}
