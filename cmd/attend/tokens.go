package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
	"go.yaml.in/yaml/v3"
)

// tokenName is the name of whom --token stands for.
const tokenName = "token"

const maxTokenName = 256

// loadTokens are those of --token and --token-file; none where both are empty. No
// error holds a token.
func loadTokens(f *flags, token, file string) (*access.Tokens, error) {
	var list []access.Token
	if token != "" {
		if err := checkToken(token); err != nil {
			return nil, f.at("token", err)
		}
		all := *access.Anyone()
		all.Name = tokenName
		list = append(list, access.Token{Secret: token, Principal: all})
	}
	if file != "" {
		more, err := loadTokenFile(file)
		if err != nil {
			return nil, f.at("token-file", err)
		}
		for _, t := range more {
			if t.Secret == token {
				return nil, f.at("token-file", fmt.Errorf("%s: the token of %s is that of --token too", file, t.Principal.Name))
			}
		}
		list = append(list, more...)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return access.NewTokens(list)
}

// loadTokenFile reads a YAML list of tokens, each with a name, scopes and rights.
func loadTokenFile(file string) ([]access.Token, error) {
	text, exposed, err := readFile(file)
	if err != nil {
		return nil, err
	}
	if exposed != nil {
		return nil, inFile(file, exposed)
	}
	n, err := parseYAML(text)
	if err == nil && (n == nil || n.Kind != yaml.SequenceNode || len(n.Content) == 0) {
		err = errors.New("want a list of tokens, each with token, name, scopes and rights")
	}
	if err != nil {
		return nil, inFile(file, err)
	}
	var list []access.Token
	for _, item := range n.Content {
		t, err := tokenOf(item)
		if err != nil {
			return nil, inFile(file, err)
		}
		if slices.ContainsFunc(list, func(u access.Token) bool { return u.Secret == t.Secret }) {
			return nil, inFile(file, onLine(item, "token: an entry before has it too"))
		}
		list = append(list, t)
	}
	return list, nil
}

// tokenOf is one entry of the file.
func tokenOf(n *yaml.Node) (t access.Token, err error) {
	list, err := pairs(n)
	if err != nil {
		return t, err
	}
	keys := []string{"token", "name", "scopes", "rights"}
	var seen []string
	for _, p := range list {
		seen = append(seen, p.key)
		var err error
		switch p.key {
		case "token":
			if t.Secret, err = scalar(p.value); err == nil {
				err = checkToken(t.Secret)
			}
		case "name":
			if t.Principal.Name, err = scalar(p.value); err == nil && !validTokenName(t.Principal.Name) {
				err = fmt.Errorf("want 1 to %d bytes without control characters", maxTokenName)
			}
		case "scopes":
			err = scopesOf(p.value, &t.Principal)
		case "rights":
			err = rightsOf(p.value, &t.Principal)
		default:
			if near := nearest(p.key, keys); near != "" {
				return t, onLine(p.node, "unknown key %q; did you mean %s?", p.key, near)
			}
			return t, onLine(p.node, "unknown key %q, want %s", p.key, strings.Join(keys, ", "))
		}
		if err != nil {
			return t, of(p.node, p.key, err)
		}
	}
	for _, k := range keys {
		if !slices.Contains(seen, k) {
			return t, onLine(n, "this entry has no %s", k)
		}
	}
	return t, nil
}

func validTokenName(s string) bool {
	return s != "" && len(s) <= maxTokenName && strings.IndexFunc(s, unicode.IsControl) < 0
}

func scopesOf(n *yaml.Node, p *access.Principal) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return errors.New(`want a list of prefixes, [""] for all scopes`)
	}
	for _, x := range n.Content {
		s, err := scalar(x)
		switch {
		case err != nil:
			return err
		case s == "" && x.Tag == "!!null":
			return onLine(x, `want a prefix, "" for all scopes`)
		case s != "" && attend.Scope(s).Check() != nil:
			return onLine(x, "want prefixes of up to 512 bytes without control characters")
		case access.Reserved(s):
			return onLine(x, "want no prefix of the server's own scopes")
		}
		p.Scopes = append(p.Scopes, attend.Prefix(s))
	}
	return nil
}

func rightsOf(n *yaml.Node, p *access.Principal) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return errors.New("want a list of ingest, read or both")
	}
	for _, x := range n.Content {
		s, err := scalar(x)
		switch {
		case err != nil:
			return err
		case s == "ingest" && !p.Ingest:
			p.Ingest = true
		case s == "read" && !p.Read:
			p.Read = true
		default:
			return onLine(x, "want ingest or read, each once")
		}
	}
	return nil
}

// checkToken refuses a token that is no bearer token, or that could be guessed.
func checkToken(s string) error {
	if len(s) < access.MinTokenBytes || len(s) > access.MaxTokenBytes ||
		strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return fmt.Errorf("want %d to %d visible ASCII characters, such as what openssl rand -hex 32 prints",
			access.MinTokenBytes, access.MaxTokenBytes)
	}
	if weak(s) {
		return errors.New("it is easy to guess; take what openssl rand -hex 32 prints")
	}
	return nil
}

// weak reports whether a token has few different characters, or is mostly runs
// such as aaaa, 1234 or fedc. It can't find every weak one; a random one it
// takes, but for one of some hundred that have 16 hexadecimal digits alone.
func weak(s string) bool {
	var seen [128]bool
	different, runs := 0, 0
	for i := range len(s) {
		if !seen[s[i]] {
			seen[s[i]] = true
			different++
		}
		if i > 0 {
			if step := int(s[i]) - int(s[i-1]); step >= -1 && step <= 1 {
				runs++
			}
		}
	}
	return different < 8 || runs > len(s)/2
}
