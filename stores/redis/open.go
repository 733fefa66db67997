package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/redis/rueidis"
)

const connectTimeout = 5 * time.Second

// connect makes a client of our own. An error holds no user and no password.
func connect(ctx context.Context, url string, timeout time.Duration) (rueidis.Client, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil { // whose text may quote a password
		return nil, &attend.InvalidError{Field: "url", Want: "redis://user:password@host:port/db, or rediss or unix in place of redis"}
	}
	o.DisableCache = true
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = connectTimeout
	}
	if o.ConnWriteTimeout == 0 {
		// After a second of silence the client asks whether the other end is still
		// there, and gives it this long to answer.
		o.ConnWriteTimeout = timeout / 2
	}
	return newClient(ctx, o)
}

// newLink makes the link of a log, once the server was found fit for it.
func newLink(ctx context.Context, c rueidis.Client, own bool, o Config, head string, streams []string) (_ *link, err error) {
	l := &link{c: c, own: own, keys: keyspace(o.Prefix), timeout: o.Timeout, log: o.Logger, head: head, streams: streams, done: make(chan struct{})}
	l.hub = newHub(l)
	defer func() {
		if err != nil {
			l.hub.close()
		}
	}()
	call, end, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := inspect(call, c, head)
	if err == nil {
		err = s.check()
	}
	if err == nil {
		err = l.tryRights(call)
	}
	if err == nil {
		err = l.adopt(call)
	}
	if err != nil {
		return nil, l.failed(call, "open", err)
	}
	say := l.log.Info
	loses, nothing := s.loses()
	if !nothing {
		say = l.log.Warn
	}
	say("redis: open", "prefix", o.Prefix, "server", s.version, "cluster", c.Mode() == rueidis.ClientModeCluster,
		"appendfsync", strings.Replace(s.sync, "pausing", "always", 1), "replicas", s.replicas, "evicts", s.policy, "crashLoses", loses)
	return l, nil
}

// tryRights does once what commits do, so that a right that is missing is said
// now and not in the middle of one.
func (l *link) tryRights(ctx context.Context) error {
	in := call{keys: l.keys.trial()}
	r := l.c.Do(ctx, rightsScript.byHash(l.c, in))
	if unknown(r.Error()) {
		r = l.c.Do(ctx, rightsScript.byText(l.c, in))
	}
	refused, err := r.AsStrSlice()
	if err != nil {
		return err
	}
	var missing []string
	for i := 0; i+1 < len(refused); i += 2 {
		if !passing(refused[i+1]) {
			missing = append(missing, refused[i])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the user may not run %s on keys under the prefix %s, or the server has no such command", strings.Join(missing, ", "), l.keys)
	}
	return nil
}

// passing reports whether a refusal is one of the moment: the server is full,
// its disk is, or its replicas are behind. A store opens all the same.
func passing(refusal string) bool {
	for _, s := range []string{"OOM", "MISCONF", "NOREPLICAS"} {
		if strings.Contains(refusal, s) {
			return true
		}
	}
	return false
}

// open makes the client and then the rest of it, which closes the client when
// it fails.
func open[T any](ctx context.Context, url string, o Config, with func(context.Context, rueidis.Client, bool, Config) (T, error)) (T, error) {
	var none T
	f, err := o.fill()
	if err != nil {
		return none, fmt.Errorf("redis: open: %w", err)
	}
	c, err := connect(ctx, url, f.Timeout)
	if err != nil {
		return none, fmt.Errorf("redis: open: %w", err)
	}
	out, err := with(ctx, c, true, f)
	if err != nil {
		c.Close()
		return none, err
	}
	return out, nil
}

// on is open for a client of the app's.
func on[T any](ctx context.Context, c rueidis.Client, o Config, with func(context.Context, rueidis.Client, bool, Config) (T, error)) (T, error) {
	f, err := o.fill()
	if err == nil && c == nil {
		err = errors.New("the client is nil")
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("redis: open: %w", err)
	}
	return with(ctx, c, false, f)
}
