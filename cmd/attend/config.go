package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// settingConfig names the file of settings.
const settingConfig = "config"

// read sets what the command line did not: from the environment, and what that did
// not from the file. All of the file is checked.
func (f *flags) read() error {
	if err := f.readEnvironment(); err != nil {
		return err
	}
	s := f.setting(settingConfig)
	if s.given == "" {
		return nil
	}
	text, exposed, err := readFile(s.given)
	if err != nil {
		return f.at(settingConfig, err)
	}
	return f.readConfig(s.given, text, exposed)
}

// readConfig takes the settings of a file that nothing else has set. One that
// holds a secret must not be exposed.
func (f *flags) readConfig(file string, text []byte, exposed error) error {
	n, err := parseYAML(text)
	if err != nil {
		return inFile(file, err)
	}
	if n == nil {
		return nil // lines of comments alone
	}
	list, err := pairs(n)
	if err != nil {
		return inFile(file, err)
	}
	for _, p := range list {
		s, err := f.ofKey(p)
		if err != nil {
			return inFile(file, err)
		}
		value, err := valueOf(s.shape, p.value)
		if err == nil && s.secret(value) {
			err = exposed
		}
		if err == nil {
			err = f.takeFrom(s, value, fmt.Sprintf("%s:%d: %s", file, p.node.Line, s.name))
		}
		if err != nil {
			return inFile(file, of(p.node, s.name, err))
		}
	}
	return nil
}

// ofKey is the setting of a key.
func (f *flags) ofKey(p pair) (*setting, error) {
	var known []string
	for _, s := range f.list {
		if s.inner {
			continue
		}
		if s.name == p.key {
			return s, nil
		}
		known = append(known, s.name)
	}
	if near := nearest(p.key, known); near != "" {
		return nil, onLine(p.node, "unknown key %q; did you mean %s?", p.key, near)
	}
	return nil, onLine(p.node, "unknown key %q", p.key)
}

// takeFrom checks a value of the file, and puts back what wins over it.
func (f *flags) takeFrom(s *setting, value, place string) error {
	given, won := s.given, s.place
	if err := s.take(value, place); err != nil || won == "" {
		return err
	}
	return s.take(given, won)
}

// valueOf is a value of a file as a flag would have it.
func valueOf(form shape, n *yaml.Node) (string, error) {
	switch {
	case form == shapeList && n.Kind == yaml.SequenceNode:
		var parts []string
		for _, x := range n.Content {
			part, err := scalar(x)
			if err == nil && strings.TrimSpace(part) == "" {
				err = onLine(x, "want no empty value in the list")
			}
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ","), nil
	case form == shapeMapping && n.Kind == yaml.MappingNode:
		return objectOf(n)
	}
	return scalar(n)
}
