package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	attend "github.com/attend-go/attend/core"
)

// maxQuestionName is how long the name of a predicate may be, in bytes.
const maxQuestionName = 256

// loadText is a text in place, or that of a file behind an @.
func loadText(value string) (string, error) {
	file, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	text, _, err := readFile(file)
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = fmt.Errorf("%s: there is nothing in it", file)
	}
	return string(text), err
}

// loadTexts is a JSON object in place, or that of a file behind an @, which may
// be YAML, with keys that fit.
func loadTexts(value string, fits func(key string) error) (map[string]string, error) {
	if value == "" {
		return nil, nil
	}
	source, isFile := strings.CutPrefix(value, "@")
	if !isFile && !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return nil, errors.New("want a JSON object, or @FILE for one of JSON or YAML")
	}
	list, file, err := readWords(source)
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	for _, w := range list {
		if err := fits(w.key); err != nil {
			err = w.at("%w", err)
			if file != "" {
				err = inFile(file, err)
			}
			return nil, err
		}
		texts[w.key] = w.value
	}
	return texts, nil
}

// fitsRoute is for the keys of --criteria.
func fitsRoute(key string) error {
	if attend.Route(key).Valid() {
		return nil
	}
	var names []string
	for _, r := range attend.AllRoutes() {
		names = append(names, string(r))
	}
	return fmt.Errorf("unknown route, want %s", inWords(names))
}

// fitsQuestion is for the keys of --predicates.
func fitsQuestion(key string) error {
	if key == "" || len(key) > maxQuestionName || strings.IndexFunc(key, unicode.IsControl) >= 0 {
		return fmt.Errorf("want a name of 1 to %d bytes without control characters", maxQuestionName)
	}
	return nil
}
