package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A payload is one webhook body of the package.
type payload struct {
	event string         // such as "pull_request"
	place int            // among the examples of its event, from 0
	body  map[string]any // numbers are json.Number, so that none is rounded
}

// decodeIndex reads the package's index: a list of events, each with a list of
// example bodies.
func decodeIndex(index []byte) ([]payload, error) {
	var events []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(index, &events); err != nil {
		return nil, err
	}
	var list []payload
	for _, e := range events {
		for i, raw := range e.Examples {
			p := payload{event: e.Name, place: i}
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(&p.body); err != nil {
				return nil, fmt.Errorf("%s: %w", p.id(), err)
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// id names the payload by its place in the package, so it is the same in each
// run.
func (p payload) id() string { return p.event + "-" + strconv.Itoa(p.place) }

// name is <event>.<action>, or the event alone where it has no action.
func (p payload) name() string {
	if action := p.str("action"); action != "" {
		return p.event + "." + action
	}
	return p.event
}

// scope says whose agent would hear of it. A GitHub App is told of the same
// things as the hook of a repository or of an organization, so what was sent to
// an App is a scope of its own. Where an organization is named, it owns the
// repository in the scope.
func (p payload) scope() string {
	owner := p.first("organization.login", "repository.owner.login")
	repo := p.str("repository.name")
	var scope string
	switch {
	case owner != "" && repo != "":
		scope = owner + "/" + repo
	case owner != "":
		scope = owner
	default:
		scope = p.first("installation.account.login", "marketplace_purchase.account.login",
			"sponsorship.sponsorable.login", "sender.login")
	}
	if scope == "" {
		scope = p.event // told to everybody, as a security advisory is
	}
	if p.at("installation") != nil {
		scope = "app/" + scope
	}
	return scope
}

// at is the value at a path of keys with dots between them, and nil where there
// is none. A number in the path is an index into a list.
func (p payload) at(path string) any {
	var v any = p.body
	for key := range strings.SplitSeq(path, ".") {
		switch t := v.(type) {
		case map[string]any:
			v = t[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}

// str is the text or number at a path, and empty where there is neither.
func (p payload) str(path string) string {
	switch v := p.at(path).(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// first is the first of the paths that has a value.
func (p payload) first(paths ...string) string {
	for _, path := range paths {
		if s := p.str(path); s != "" {
			return s
		}
	}
	return ""
}
