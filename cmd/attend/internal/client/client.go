package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 20

// A Client asks one server. Its methods may be called from many goroutines at
// once.
type Client struct {
	base  string // without a slash at its end
	token string
	http  *http.Client
}

// ErrToken: a token that no request can have.
var ErrToken = errors.New("want visible ASCII characters alone; a file may have a line's end behind them")

// New returns a client of a server: an http or https URL, or unix: and the path
// of a socket. The token may be empty. An error says what is wrong with the URL,
// or is [ErrToken], and never quotes either.
func New(server, token string) (*Client, error) {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, ErrToken
	}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
	c := &Client{token: token, http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token goes to nobody else
	}}}
	if path, ok := strings.CutPrefix(server, "unix:"); ok {
		if path == "" {
			return nil, errors.New("want unix: and the path of a socket")
		}
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		t.Proxy = nil
		c.base = "http://localhost"
		return c, nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("want a URL such as http://127.0.0.1:8787, or unix: and the path of a socket")
	}
	c.base = strings.TrimSuffix(u.String(), "/")
	return c, nil
}

// A ServerError is an answer that is none of those that were asked for.
type ServerError struct {
	Status int
	Detail string        // in the server's words; empty where it said nothing readable
	Retry  time.Duration // how long it asks to be left alone; 0: it does not say
	Body   []byte        // of the problem, for what is more in it
}

// Error says what the server said.
func (e *ServerError) Error() string {
	s := fmt.Sprintf("the server answers %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Temporary reports whether the same request may be taken later.
func (e *ServerError) Temporary() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// do sends one request and returns an answer of status 200, whose body the caller
// closes.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the request: %w", err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return nil, fmt.Errorf("the server can't be asked: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp, nil
}

// problem is what an answer says that went wrong.
func problem(resp *http.Response) error {
	e := &ServerError{Status: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.Retry = time.Duration(min(s, 3600)) * time.Second
	}
	e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what there is
	var p struct {
		Detail string `json:"detail"`
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(e.Body, &p) == nil {
		e.Detail = p.Detail
	}
	return e
}

// Get asks for JSON and returns it. An error may be a [*ServerError].
func (c *Client) Get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	resp, err := c.do(ctx, http.MethodGet, path, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer breaks off: %w", err)
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	case !json.Valid(b):
		return nil, errors.New("the answer is no JSON; is this an attend server?")
	}
	return b, nil
}
