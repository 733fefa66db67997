package main

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// maxText is where a line of text is cut, in characters.
const maxText = 200

// text is the payload's line for people, made by the template in words.go.
func text(p payload) (string, error) {
	template := cmp.Or(words[role(p)], words[p.name()], words[p.event])
	if template == "" {
		return "", fmt.Errorf("%s: no words for %s", p.id(), p.name())
	}
	line, err := fill(template, p)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.id(), err)
	}
	return oneLine(line, maxText), nil
}

// fill puts values of the payload into a template. {path} is a value, {a,b} the
// first that there is, {path:filter} one that is shortened. What stands in
// [ and ] is left out where it lacks a value; elsewhere that is an error.
func fill(template string, p payload) (string, error) {
	var b strings.Builder
	for rest := template; rest != ""; {
		i := strings.IndexAny(rest, "[{")
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		closer := "}"
		if rest[i] == '[' {
			closer = "]"
		}
		inner, after, ok := strings.Cut(rest[i+1:], closer)
		if !ok {
			return "", fmt.Errorf("no %s in template %q", closer, template)
		}
		if rest[i] == '[' {
			if part, err := fill(inner, p); err == nil {
				b.WriteString(part)
			}
		} else {
			paths, filter, _ := strings.Cut(inner, ":")
			v := shorten(p.first(strings.Split(paths, ",")...), filter)
			if v == "" {
				return "", fmt.Errorf("no value for {%s}", inner)
			}
			b.WriteString(v)
		}
		rest = after
	}
	return b.String(), nil
}

// shorten applies a filter of a template to a value.
func shorten(v, filter string) string {
	switch filter {
	case "sha":
		return v[:min(len(v), 7)]
	case "short":
		return cut(v, 15)
	case "ref":
		return strings.TrimPrefix(strings.TrimPrefix(v, "refs/heads/"), "refs/tags/")
	case "words":
		return strings.ReplaceAll(v, "_", " ")
	}
	return v
}

// oneLine makes a run of white space or control characters one space, and cuts
// what is longer than most characters with a mark.
func oneLine(s string, most int) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	return cut(s, most)
}

// cut ends what is longer than most characters with a mark.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
