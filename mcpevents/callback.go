package mcpevents

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxCallbackURL is the longest URL of a callback that is taken.
const maxCallbackURL = 2048

var errCallback = errors.New("must be an absolute https URL of at most 2048 ASCII characters, without user and fragment")

// parseCallback reads the URL of a callback. Its error has nothing of it: a URL
// may hold a token.
func parseCallback(text string) (*url.URL, error) {
	if len(text) > maxCallbackURL {
		return nil, errCallback
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return nil, errCallback
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Opaque != "" || u.User != nil || u.Hostname() == "" || strings.Contains(text, "#") {
		return nil, errCallback
	}
	if strings.Contains(u.Host, "%") { // an escaped host, or an address with a zone
		return nil, errCallback
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, errCallback
		}
	}
	if strings.HasPrefix(u.Host, "[") {
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return nil, errCallback
		}
	}
	return u, nil
}

// callbackHost is the host whose challenges are counted together, in one spelling.
func callbackHost(u *url.URL) string {
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		return a.Unmap().String()
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// origin is scheme, host and port, the port always there.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return "https://" + net.JoinHostPort(callbackHost(u), port)
}

// covers reports whether a path prefix covers the path of u: a prefix that ends
// in a slash what is below it, another one itself and what is below it. A path
// that walks (. or .., also escaped), or hides a slash, is covered by none.
func covers(prefix string, u *url.URL) bool {
	if !strings.HasPrefix(prefix, "/") {
		return false
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	lower := strings.ToLower(path)
	if strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(path, `\`) {
		return false
	}
	for segment := range strings.SplitSeq(strings.ReplaceAll(lower, "%2e", "."), "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(path, prefix)
	}
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// trusted reports whether an entry of [WebhookConfig.Trusted] covers u.
func trusted(entry, u *url.URL) bool {
	return origin(entry) == origin(u) && covers(pathOf(entry), u)
}

func pathOf(u *url.URL) string {
	if p := u.EscapedPath(); p != "" {
		return p
	}
	return "/"
}
