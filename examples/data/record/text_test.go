package main

import "testing"

func TestFill(t *testing.T) {
	p := decode(t, "push", `{"ref":"refs/heads/a/b","after":"6113728f27ae","n":12,"state":"in_progress","none":null,"list":[{"x":"y"}]}`)
	for _, c := range []struct{ template, want string }{
		{"plain", "plain"},
		{"{ref:ref} at {after:sha}", "a/b at 6113728"},
		{"#{n}: {state:words}", "#12: in progress"},
		{"{none,ref}", "refs/heads/a/b"},
		{"{list.0.x}[ and {list.1.x}]", "y"},
		{"x[ ({n})]", "x (12)"},
		{"x[ {n} of {none}]", "x"},
	} {
		if got, err := fill(c.template, p); err != nil || got != c.want {
			t.Errorf("fill(%q) = %q, %v, want %q", c.template, got, err, c.want)
		}
	}
	for _, template := range []string{"{none}", "{a.b}", "{list.x}", "{list}", "{ref", "[x"} {
		if got, err := fill(template, p); err == nil {
			t.Errorf("fill(%q) = %q, want an error", template, got)
		}
	}
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"one line", "one line"},
		{" two\r\n\tlines \x00\u0085", "two lines"},
		{"ten letter", "ten letter"},
		{"eleven lett", "eleven le…"},
		{"zwölf Zäh…x", "zwölf Zäh…"},
	} {
		if got := oneLine(c.in, 10); got != c.want {
			t.Errorf("oneLine(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// TestText has an event of each way to find its words: by role, by name, by
// event.
func TestText(t *testing.T) {
	for _, c := range []struct{ event, body, want string }{
		{"push", `{"ref":"refs/tags/v1","after":"6113728f27ae","sender":{"login":"octocat"}}`, "octocat pushed tag v1 at 6113728"},
		{"issues", `{"action":"labeled","issue":{"number":1},"label":{"name":"bug"},"sender":{"login":"octocat"}}`,
			"octocat labeled issue #1 bug"},
		{"issues", `{"action":"opened","issue":{"number":1,"title":"Two\nlines"},"sender":{"login":"octocat"}}`,
			"octocat opened issue #1: Two lines"},
	} {
		if got, err := text(decode(t, c.event, c.body)); err != nil || got != c.want {
			t.Errorf("text of %s %s = %q, %v, want %q", c.event, c.body, got, err, c.want)
		}
	}
	if got, err := text(decode(t, "strike", `{}`)); err == nil {
		t.Errorf("text of an unknown event = %q, want an error", got)
	}
}
