package main

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"closing-grace", "host", "max-waits", "max-window", "port", "store", "token", "token-file"}
	for name, want := range map[string]string{
		"closing-grase": "closing-grace", "closing_grace": "closing-grace", "closingGrace": "closing-grace", "CLOSING-GRACE": "closing-grace",
		"clsoing-grace": "closing-grace", "closing-grce": "closing-grace", "closing": "", "stor": "store", "sotre": "store",
		"prot": "port", "pots": "", "hst": "host", "tokens": "token", "tokenfile": "token-file", "max-wait": "max-waits",
		"": "", "x": "", "xyzzy": "", "max-windows": "max-window",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// distance agrees with the plain recursion.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		change := 1
		if a[0] == b[0] {
			change = 0
		}
		d := min(slow(a[1:], b)+1, slow(a, b[1:])+1, slow(a[1:], b[1:])+change)
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			d = min(d, slow(a[2:], b[2:])+1)
		}
		return d
	}
	var words []string
	for n := range 1 << 8 {
		word := ""
		for i := range n >> 6 {
			word += string(rune('a' + n>>(2*i)&3))
		}
		words = append(words, word)
	}
	words = append(words, "abcde", "badce", "edcba", "aabbc", "abab", "baba")
	for _, a := range words {
		for _, b := range words {
			want := slow(a, b)
			if got := distance(a, b, 9); got != want {
				t.Fatalf("distance(%q, %q) = %d, want %d", a, b, got, want)
			}
			if got := distance(a, b, 1); (got <= 1) != (want <= 1) {
				t.Fatalf("distance(%q, %q) up to 1 = %d, want %d", a, b, got, want)
			}
		}
	}
}
