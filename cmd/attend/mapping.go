package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A word is a key of a mapping and its value, both texts.
type word struct {
	key, value string
	line       int // in a YAML file; else 0
}

// at puts key and line before what is wrong with w.
func (w *word) at(format string, args ...any) error {
	err := fmt.Errorf("%q: %w", w.key, fmt.Errorf(format, args...))
	if w.line > 0 {
		err = &lineError{w.line, err}
	}
	return err
}

// readWords reads what a setting says: a JSON object in place when it begins with
// a brace, else a file, in JSON or YAML. file is its name, or empty.
func readWords(source string) (list []word, file string, err error) {
	if strings.HasPrefix(strings.TrimSpace(source), "{") {
		list, err = jsonWords([]byte(source))
		return list, "", err
	}
	text, _, err := readFile(source)
	if err != nil {
		return nil, "", err
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || json.Valid(trimmed) {
		list, err = jsonWords(text)
	} else {
		list, err = yamlWords(text)
	}
	if err != nil {
		return nil, source, inFile(source, err)
	}
	return list, source, nil
}

// jsonWords goes through an object token by token, so that a key that is there
// twice is found.
func jsonWords(text []byte) ([]word, error) {
	if !json.Valid(text) || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil, errors.New("want one JSON object of names and texts")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil { // the brace
		return nil, err
	}
	var list []word
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		w := word{key: token.(string)}
		var value any
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		var ok bool
		if w.value, ok = value.(string); !ok {
			return nil, w.at("want a text")
		}
		if seen[w.key] {
			return nil, w.at("named twice")
		}
		if err := w.check(); err != nil {
			return nil, err
		}
		seen[w.key] = true
		list = append(list, w)
	}
	return list, nil
}

func yamlWords(text []byte) ([]word, error) {
	n, err := parseYAML(text)
	if err == nil && (n == nil || n.Kind != yaml.MappingNode) {
		err = errors.New("want one JSON object or YAML mapping of names and texts")
	}
	if err != nil {
		return nil, err
	}
	return nodeWords(n)
}

// nodeWords are those of a mapping in YAML.
func nodeWords(n *yaml.Node) ([]word, error) {
	list, err := pairs(n)
	if err != nil {
		return nil, err
	}
	var words []word
	for _, p := range list {
		w := word{key: p.key, line: p.node.Line}
		if w.value, err = scalar(p.value); err != nil {
			return nil, of(p.node, fmt.Sprintf("%q", p.key), err)
		}
		if err := w.check(); err != nil {
			return nil, err
		}
		words = append(words, w)
	}
	return words, nil
}

func (w *word) check() error {
	if strings.TrimSpace(w.value) == "" {
		return w.at("it is empty")
	}
	return nil
}

// objectOf is a mapping of texts as JSON.
func objectOf(n *yaml.Node) (string, error) {
	words, err := nodeWords(n)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, w := range words {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, text := range []string{w.key, w.value} {
			quoted, err := json.Marshal(text)
			if err != nil {
				return "", w.at("%w", err)
			}
			b.Write(quoted)
			if j == 0 {
				b.WriteByte(':')
			}
		}
	}
	b.WriteByte('}')
	return b.String(), nil
}
