package main

import (
	"errors"
	"strings"
)

// A setting is one thing that can be set: by a flag, by a variable of the
// environment, and by a key of a file. Flags, variables, keys, help, the check and
// the page for users are all made from it. It is the flag's pflag.Value.
type setting struct {
	name  string // of the flag and the key
	kind  string // what it takes, as help says
	def   string // what counts where it is not set; empty: nothing
	usage string // a word in back quotes stands for the value in help
	group string // which part of the page and of the check it stands in
	inner bool   // of the command itself: no key of a file
	shape shape  // what a file may have in the place of a text

	set   func(string) error  // checks a value, which is never empty, and keeps it
	shown func(string) string // a value without the secrets in it; nil: it has none

	given string // what it was set to
	place string // where: --port, ATTEND_PORT, or file:line: port; empty: it was not set
}

// A shape says what a value in a file may be beside a text.
type shape string

const (
	shapeText    shape = ""        // nothing else
	shapeList    shape = "list"    // a sequence: its values with commas between them
	shapeMapping shape = "mapping" // a mapping, instead of JSON in place
)

// The kinds of settings that need more than their parser.
const (
	kindText    = "string"
	kindBoolean = "bool" // help then shows no value
)

var errEmptySetting = errors.New("it is empty; leave it out for the default")

// take sets s to what stands at a place. Its error does not hold the value, which
// may be a secret.
func (s *setting) take(value, place string) error {
	if strings.TrimSpace(value) == "" {
		return errEmptySetting
	}
	if err := s.set(value); err != nil {
		return err
	}
	s.given, s.place = value, place
	return nil
}

// where is the place of s for an error about it.
func (s *setting) where() string {
	if s.place == "" {
		return "--" + s.name
	}
	return s.place
}

// variable is the name of s in the environment.
func (s *setting) variable() string { return variableOf(s.name) }

const variablePrefix = "ATTEND_"

func variableOf(name string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// secret reports whether a value of s holds one.
func (s *setting) secret(value string) bool { return s.shown != nil && s.shown(value) != value }

// String returns what s is set to, in the beginning its default.
func (s *setting) String() string {
	switch {
	case s.place == "":
		return s.def
	case s.shown != nil:
		return s.shown(s.given)
	}
	return s.given
}

// Set takes the value of the flag.
func (s *setting) Set(value string) error { return s.take(value, "--"+s.name) }

// Type names in help what the flag takes.
func (s *setting) Type() string { return s.kind }
