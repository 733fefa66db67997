package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestExtract(t *testing.T) {
	long := strings.Repeat("ä", maxString+1)
	for _, c := range []struct{ name, body, want string }{
		{"numbers are kept as they are", `{"id":12345678901234567890,"x":1.50}`, `{"id":12345678901234567890,"x":1.50}`},
		{"false and zero stay", `{"a":false,"b":0}`, `{"a":false,"b":0}`},
		{"empty things go", `{"a":null,"b":"","c":[],"d":{},"e":{"f":[{"g":null}]},"h":1}`, `{"h":1}`},
		{"addresses of the API go", `{"url":"u","a_url":"u","html_url":"h","_links":{"x":1},"node_id":"n"}`, `{"html_url":"h"}`},
		{"people by login", `{"sender":{"login":"octocat","id":1},"assignees":[{"login":"octocat","id":1}]}`,
			`{"assignees":["octocat"],"sender":"octocat"}`},
		{"an invitation stays", `{"invitation":{"login":"octocat","role":"member","email":"o@example.com"}}`,
			`{"invitation":{"login":"octocat","role":"member"}}`},
		{"git authors by account", `{"author":{"name":"N","email":"n@example.com","username":"octocat"},"committer":{"name":"N"}}`,
			`{"author":"octocat"}`},
		{"the repository", `{"repository":{"id":1,"full_name":"a/b","owner":{"login":"a"},"forks":3}}`,
			`{"repository":{"full_name":"a/b","id":1}}`},
		{"another repository", `{"forkee":{"id":1,"full_name":"a/b"}}`, `{"forkee":"a/b"}`},
		{"labels and apps", `{"labels":[{"name":"bug","color":"f"}],"label":{"name":"bug","color":"f"},"app":{"id":1,"name":"A"}}`,
			`{"app":"A","label":{"color":"f","name":"bug"},"labels":["bug"]}`},
		{"no key", `{"key":{"id":1,"key":"ssh-rsa AAAA"}}`, `{"key":{"id":1}}`},
		{"long texts", `{"body":"` + long + `"}`, `{"body":"` + long[:2*(maxString-1)] + `…"}`},
		{"long lists", `{"a":[1,2,3,4,5,6,7,8,9]}`, `{"a":[1,2,3,4,5,6,7,8]}`},
	} {
		got, err := json.Marshal(extract(decode(t, "x", c.body)))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: extract(%s) = %s, %v, want %s", c.name, c.body, got, err, c.want)
		}
	}
}
