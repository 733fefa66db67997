package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A lineError is what is wrong on a line.
type lineError struct {
	line int
	err  error
}

// Error names the line.
func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

// Unwrap returns what is wrong on it.
func (e *lineError) Unwrap() error { return e.err }

func onLine(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Errorf(format, args...)}
}

// of puts what is at fault before an error that may have a line.
func of(n *yaml.Node, what string, err error) error {
	if e, ok := errors.AsType[*lineError](err); ok {
		return &lineError{e.line, fmt.Errorf("%s: %w", what, e.err)}
	}
	return onLine(n, "%s: %w", what, err)
}

// inFile writes a place as compilers do.
func inFile(file string, err error) error {
	if e, ok := errors.AsType[*lineError](err); ok {
		return fmt.Errorf("%s:%d: %w", file, e.line, e.err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// parseYAML is the one document of a text; nil: there is nothing in it. An error
// holds nothing of the text but names, since it may hold secrets.
func parseYAML(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, plainYAML(err)
	}
	if err := d.Decode(&more); err == nil {
		return nil, onLine(&more, "want one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, plainYAML(err)
	}
	if n := doc.Content[0]; n.Kind != yaml.ScalarNode || n.Tag != "!!null" {
		return n, nil
	}
	return nil, nil
}

// plainYAML is the parser's error without what it quotes.
func plainYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ") //check:allow text the parser has no types, and quotes a name
	if strings.Contains(text, "anchor") {
		text = "an unknown reference: put a value or a key that begins with * into quotes"
	}
	return errors.New("this is not YAML: " + text)
}

// A pair is a key of a mapping and its value.
type pair struct {
	key   string
	node  *yaml.Node // of the key
	value *yaml.Node
}

// pairs are those of a mapping, in order. Keys are texts, each there once.
func pairs(n *yaml.Node) ([]pair, error) {
	if n.Kind != yaml.MappingNode {
		return nil, onLine(n, "want a mapping: lines of a key, a colon and a value")
	}
	var out []pair
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			return nil, onLine(k, "want a text as the key")
		}
		if line, twice := lines[k.Value]; twice {
			return nil, onLine(k, "%s: it is on line %d already", k.Value, line)
		}
		lines[k.Value] = k.Line
		out = append(out, pair{k.Value, k, v})
	}
	return out, nil
}

// scalar is the text of a value that is one, as it stands in the file: 8787 and
// on are texts, too.
func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
	case yaml.AliasNode:
		return "", onLine(n, "want no reference to another value")
	default:
		return "", onLine(n, "want one value, no list and no mapping")
	}
	switch n.Tag {
	case "!!null":
		return "", nil
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return n.Value, nil
	}
	return "", onLine(n, "want no tag before a value")
}
