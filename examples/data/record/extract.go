package main

import (
	"slices"
	"strings"
)

// What an extract keeps at most: characters of a text, items of a list.
const (
	maxString = 300
	maxItems  = 8
)

// extract is the part of a payload that an agent could want: no addresses of
// the API, nothing empty, no mail address, key or real name; accounts, apps,
// labels and repositories by name. It takes away and shortens; it puts nothing
// in.
func extract(p payload) map[string]any {
	out := make(map[string]any, len(p.body))
	for key, v := range p.body {
		if repo, ok := v.(map[string]any); ok && key == "repository" {
			v = pick(repo, repositoryFields)
		} else {
			v = prune(key, v)
		}
		if v != nil {
			out[key] = v
		}
	}
	return out
}

// repositoryFields is what stays of the repository that a payload is about;
// elsewhere a repository is its name.
var repositoryFields = []string{"id", "full_name", "private", "description", "language",
	"default_branch", "stargazers_count", "open_issues_count", "topics"}

// pick keeps the named fields that are not empty.
func pick(m map[string]any, fields []string) any {
	out := make(map[string]any, len(fields))
	for _, f := range fields {
		if v := prune(f, m[f]); v != nil {
			out[f] = v
		}
	}
	return out
}

// droppedKeys are left out: addresses and ids of the API, settings, and what
// the rest of a payload says too.
var droppedKeys = []string{"_links", "author_association", "check_suite_node_id", "config", "email",
	"events", "gravatar_id", "images", "installation_command", "node_id", "organization_billing_email",
	"parents", "permissions", "protocols", "reactions", "runner_group_name", "single_file_paths",
	"site_admin", "tree", "tree_id", "url", "verification"}

func dropped(key string) bool {
	return slices.Contains(droppedKeys, key) || strings.HasSuffix(key, "_url") && key != "html_url"
}

// prune is the extract of the value under a key, and nil where nothing is left
// of it.
func prune(key string, v any) any {
	if dropped(key) {
		return nil
	}
	switch v := v.(type) {
	case string:
		if v == "" || strings.HasPrefix(v, "ssh-") { // the key that a deploy key is
			return nil
		}
		return cut(v, maxString)
	case []any:
		return pruneList(key, v)
	case map[string]any:
		return pruneObject(key, v)
	}
	return v
}

func pruneList(key string, list []any) any {
	var out []any
	for _, e := range list[:min(len(list), maxItems)] {
		if e = prune(key, e); e != nil {
			out = append(out, e)
		}
	}
	if out == nil {
		return nil
	}
	return out
}

func pruneObject(key string, m map[string]any) any {
	if name, ok := byName(key, m); ok {
		if name == "" {
			return nil
		}
		return name
	}
	out := make(map[string]any, len(m))
	for k, e := range m {
		if e = prune(k, e); e != nil {
			out[k] = e
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// byName is the name that stands for an object, and false for an object that
// stays one. A git author has a real name too, which stays out. An invitation
// is more than the login that it names.
func byName(key string, m map[string]any) (string, bool) {
	field := key
	switch key {
	case "app", "performed_via_github_app", "labels", "enterprise":
		field = "name"
	case "license":
		field = "spdx_id"
	case "author", "committer":
		field = "username"
	case "invitation":
		return "", false
	}
	for _, f := range []string{"login", "full_name"} {
		if s, ok := m[f].(string); ok && s != "" {
			return s, true
		}
	}
	s, _ := m[field].(string)
	return s, field != key
}
