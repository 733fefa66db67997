package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A flags is the settings of one command, in the order in which help lists them.
type flags struct {
	cmd   *cobra.Command
	list  []*setting
	group string   // of those that are added next
	only  []string // which of them are flags; the others are keys of a file alone. Nil: all
}

// newFlags is cmd's settings, each a flag of it.
func newFlags(cmd *cobra.Command) *flags {
	cmd.Flags().SortFlags = false
	return &flags{cmd: cmd}
}

// add makes a flag of s.
func (f *flags) add(s *setting) *setting {
	s.group = f.group
	f.list = append(f.list, s)
	if !f.offers(s) {
		return s
	}
	flag := f.cmd.Flags().VarPF(s, s.name, "", s.usage)
	if s.kind == kindBoolean {
		flag.NoOptDefVal = "true"
	}
	return s
}

// offers reports whether s is a flag of the command.
func (f *flags) offers(s *setting) bool { return f.only == nil || slices.Contains(f.only, s.name) }

// setting is the one of a name that was added.
func (f *flags) setting(name string) *setting {
	return f.list[slices.IndexFunc(f.list, func(s *setting) bool { return s.name == name })]
}

// at says of an error which setting is at fault, and where it was set.
func (f *flags) at(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", f.setting(name).where(), err)
}

func (f *flags) parsed(name, kind, def, usage string, set func(string) error) *setting {
	return f.add(&setting{name: name, kind: kind, def: def, usage: usage, set: set})
}

func (f *flags) text(p *string, name, def, usage string) *setting {
	*p = def
	return f.parsed(name, kindText, def, usage, func(s string) error {
		*p = s
		return nil
	})
}

// choice makes a flag for one of some words.
func (f *flags) choice(p *string, name, def, usage string, words ...string) *setting {
	*p = def
	return f.parsed(name, kindText, def, usage, func(s string) error {
		if !slices.Contains(words, s) {
			return errors.New("want " + inWords(words))
		}
		*p = s
		return nil
	})
}

func (f *flags) boolean(p *bool, name, usage string) *setting {
	return f.toggle(p, name, "", usage)
}

// toggle is boolean with a default that help shows.
func (f *flags) toggle(p *bool, name, def, usage string) *setting {
	return f.parsed(name, kindBoolean, def, usage, func(s string) error {
		switch strings.ToLower(s) {
		case "true", "on", "yes", "1":
			*p = true
		case "false", "off", "no", "0":
			*p = false
		default:
			return errors.New("want true or false")
		}
		return nil
	})
}

// duration makes a flag for a setting whose zero stands for its default.
func (f *flags) duration(p *time.Duration, name string, def time.Duration, usage string) *setting {
	return f.span(p, name, def, time.Millisecond, maxDuration, usage)
}

// span makes a flag for a duration from low to most.
func (f *flags) span(p *time.Duration, name string, def, low, most time.Duration, usage string) *setting {
	return f.parsed(name, "duration", shortDuration(def), usage, func(s string) error {
		d, err := parseDuration(s, low, most)
		if err == nil {
			*p = d
		}
		return err
	})
}

// count makes a flag for a setting whose zero stands for its default. Where none
// is a choice, 0 means that, which in an engine.Config is a negative number.
func (f *flags) count(p *int, name string, def int, none bool, usage string) *setting {
	low := 1
	if none {
		low = 0
	}
	return f.parsed(name, "count", strconv.Itoa(def), usage, func(s string) error {
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
func (f *flags) backoff(p *[]time.Duration, name string, def []time.Duration, usage string) *setting {
	const most = 32
	s := f.parsed(name, "list", durations(def), usage, func(s string) error {
		list := []time.Duration{} // not nil, which would be the default
		if s != "none" {
			for part := range strings.SplitSeq(s, ",") {
				d, err := parseDuration(strings.TrimSpace(part), 0, maxDuration)
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
	s.shape = shapeList
	return s
}

// number makes a flag for a finite number that fits, which want describes.
func (f *flags) number(p *float64, name, def, want, usage string, fits func(float64) bool) *setting {
	return f.parsed(name, "number", def, usage, func(s string) error {
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

const maxDuration = 100 * 365 * 24 * time.Hour

func parseDuration(s string, low, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < low || d > most || d%time.Millisecond != 0 {
		end := "100 years"
		if most != maxDuration {
			end = shortDuration(most)
		}
		return 0, fmt.Errorf("want a duration in whole milliseconds from %v to %s, such as 500ms, 10s or 2h", low, end)
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

// words makes a flag for a list of texts.
func (f *flags) words(p *[]string, name, usage string) *setting {
	s := f.parsed(name, "list", "", usage, func(s string) error {
		list := strings.Split(s, ",")
		for i := range list {
			if list[i] = strings.TrimSpace(list[i]); list[i] == "" {
				return errors.New("want words with commas between them")
			}
		}
		*p = list
		return nil
	})
	s.shape = shapeList
	return s
}
