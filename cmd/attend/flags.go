package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A flags is the flags of one command. Each can be set by its environment
// variable, too.
type flags struct {
	cmd   *cobra.Command
	names []string
}

// newFlags is cmd's flags. Help lists them in the order in which they are made.
func newFlags(cmd *cobra.Command) *flags {
	cmd.Flags().SortFlags = false
	return &flags{cmd: cmd}
}

func (f *flags) text(p *string, name, def, usage string) {
	f.cmd.Flags().StringVar(p, name, def, usage)
	f.names = append(f.names, name)
}

func (f *flags) boolean(p *bool, name, usage string) {
	f.cmd.Flags().BoolVar(p, name, false, usage)
	f.names = append(f.names, name)
}

// duration makes a flag for a setting whose zero stands for its default.
func (f *flags) duration(p *time.Duration, name string, def time.Duration, usage string) {
	f.parsed(name, "duration", shortDuration(def), usage, func(s string) error {
		d, err := parseDuration(s, time.Millisecond)
		if err == nil {
			*p = d
		}
		return err
	})
}

// count makes a flag for a setting whose zero stands for its default. Where none
// is a choice, 0 means that, which in an engine.Config is a negative number.
func (f *flags) count(p *int, name string, def int, none bool, usage string) {
	low := 1
	if none {
		low = 0
	}
	f.parsed(name, "count", strconv.Itoa(def), usage, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > 1<<30 {
			return fmt.Errorf("want a whole number from %d to 2^30", low)
		}
		if n == 0 {
			n = -1
		}
		*p = n
		return nil
	})
}

// backoff makes a flag for a list of pauses.
func (f *flags) backoff(p *[]time.Duration, name string, def []time.Duration, usage string) {
	const most = 32
	f.parsed(name, "list", durations(def), usage, func(s string) error {
		list := []time.Duration{} // not nil, which would be the default
		if s != "none" {
			for part := range strings.SplitSeq(s, ",") {
				d, err := parseDuration(strings.TrimSpace(part), 0)
				if err != nil {
					return errors.New("want durations with commas between them, such as 1s,4s,16s, or none")
				}
				list = append(list, d)
			}
		}
		if len(list) > most {
			return fmt.Errorf("want at most %d durations", most)
		}
		*p = list
		return nil
	})
}

// number makes a flag for a finite number that fits, which want describes.
func (f *flags) number(p *float64, name, def, want, usage string, fits func(float64) bool) {
	f.parsed(name, "number", def, usage, func(s string) error {
		if s == "off" && def == "off" {
			*p = 0
			return nil
		}
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(n, 0) || !fits(n) {
			return errors.New("want " + want)
		}
		*p = n
		return nil
	})
}

func (f *flags) parsed(name, kind, def, usage string, set func(string) error) {
	f.cmd.Flags().Var(&parsed{kind: kind, shown: def, set: set}, name, usage)
	f.names = append(f.names, name)
}

// readEnvironment sets the flags that were not given from their variables. An
// empty variable counts as none.
func (f *flags) readEnvironment() error {
	for _, name := range f.names {
		variable := "ATTEND_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		v := os.Getenv(variable)
		if v == "" || f.cmd.Flags().Changed(name) {
			continue
		}
		if err := f.cmd.Flags().Lookup(name).Value.Set(v); err != nil {
			return fmt.Errorf("invalid %s: %w", variable, err)
		}
	}
	return nil
}

// A parsed is a flag's value that checks what it is given.
type parsed struct {
	kind, shown string
	set         func(string) error
}

// String returns what the flag was set to last, in the beginning its default.
func (p *parsed) String() string { return p.shown }

// Set parses s.
func (p *parsed) Set(s string) error {
	if err := p.set(s); err != nil {
		return err
	}
	p.shown = s
	return nil
}

// Type names in help what the flag takes.
func (p *parsed) Type() string { return p.kind }

const maxDuration = 100 * 365 * 24 * time.Hour

func parseDuration(s string, low time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < low || d > maxDuration || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("want a duration in whole milliseconds from %v to 100 years, such as 500ms, 10s or 2h", low)
	}
	return d, nil
}

// shortDuration is d without the units that are zero: 1m for 1m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func durations(list []time.Duration) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = shortDuration(d)
	}
	return strings.Join(words, ",")
}
