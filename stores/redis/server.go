package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// A server is what a server says of itself.
type server struct {
	version  string
	life     string // its process, as lua/common.lua has it
	role     string
	replicas int
	policy   string // of eviction
	limited  bool   // it has a maxmemory
	sync     string // always, everysec, no; off: no append-only file; unknown; pausing: always, but for no-appendfsync-on-rewrite
}

// inspect asks the server that keeps the key.
func inspect(ctx context.Context, c rueidis.Client, key string) (s server, err error) {
	for range 3 {
		// A connection that lay idle may have died with the server before.
		s, err = inspectOnce(ctx, c, key)
		if _, answered := rueidis.IsRedisErr(err); err == nil || answered || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

func inspectOnce(ctx context.Context, c rueidis.Client, key string) (server, error) {
	// On a cluster the key picks the server; a client that has it wrong is told
	// so by the first command, which does look at the key. The others go to one
	// server together: not over a connection of their own, since the client may
	// have none left, and would wait for it without end.
	if err := c.Do(ctx, c.B().Hget().Key(key).Field("schema").Build().Pin()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return server{}, err
	}
	r := c.DoMulti(ctx,
		c.B().Info().Build().SetSlot(key).Pin(),
		c.B().ConfigGet().Parameter("*appendfsync*").Build().SetSlot(key).Pin(), // Redis 6.2 takes one pattern
	)
	text, err := r[0].ToString()
	if err != nil {
		return server{}, fmt.Errorf("INFO: %w", err)
	}
	s := parseInfo(text)
	m, err := r[1].AsStrMap()
	if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
		return s, err
	}
	if s.sync == "" {
		s.sync = cmp.Or(m["appendfsync"], "unknown")
		if s.sync == "always" && m["no-appendfsync-on-rewrite"] != "no" {
			s.sync = "pausing"
		}
	}
	return s, nil
}

func parseInfo(text string) server {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		m[k] = v
	}
	s := server{version: m["redis_version"], role: m["role"], policy: m["maxmemory_policy"]}
	s.replicas, _ = strconv.Atoi(m["connected_slaves"])
	s.limited = m["maxmemory"] != "0"
	s.life = m["run_id"]
	if m["aof_enabled"] != "1" {
		s.sync = "off"
	}
	return s
}

// check returns why a store can't live here.
func (s server) check() error {
	if !since(s.version, 6, 2) {
		return fmt.Errorf("the server has version %q, want 6.2 or later", s.version)
	}
	if s.life == "" {
		return errors.New("the server's INFO has no run_id, so that a restart would go unnoticed")
	}
	if s.role != "master" {
		return fmt.Errorf("the server's role is %q: want the master", s.role)
	}
	if s.limited && strings.HasPrefix(s.policy, "allkeys") {
		return fmt.Errorf("the server's maxmemory-policy is %s, which deletes keys when memory is full: want noeviction", s.policy)
	}
	return nil
}

// since reports whether a version is at least major.minor.
func since(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// loses says what a crash of the server takes along, and whether that is
// nothing.
func (s server) loses() (what string, nothing bool) {
	switch {
	case s.sync == "always" && s.replicas == 0:
		return "nothing", true
	case s.sync == "always":
		return "nothing in a restart; in a failover what the replica had yet to get", true
	case s.sync == "pausing":
		return "what came while the append-only file was rewritten (no-appendfsync-on-rewrite yes)", false
	case s.sync == "everysec":
		return "about the last second (appendfsync everysec)", false
	case s.sync == "no":
		return "what the operating system had yet to write (appendfsync no)", false
	case s.sync == "off":
		return "all since the last RDB file (appendonly no)", false
	}
	return "unknown: CONFIG GET appendfsync is refused", false
}
