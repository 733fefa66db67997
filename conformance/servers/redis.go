package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// StartRedis starts a Redis server and returns when it answers. It writes no
// snapshots, and its append-only file is synced for every command, unless
// c.Settings say otherwise. It is the redis-server of ATTEND_REDIS_BIN, or else
// the one on the PATH; where there is none the error is [ErrMissing]. Other
// errors hold the end of the server's log. ctx bounds the start alone.
func StartRedis(ctx context.Context, c Config) (*Server, error) {
	k, err := newRedis(c)
	if err != nil {
		return nil, err
	}
	return start(ctx, c, k, freePort)
}

type redis struct {
	bin      string
	settings string // lines of redis.conf
}

func newRedis(c Config) (kind, error) {
	bin, err := redisBin()
	if err != nil {
		return nil, err
	}
	settings, err := redisConf(c.Settings)
	if err != nil {
		return nil, fmt.Errorf("servers: Redis: %w", err)
	}
	return &redis{bin, settings}, nil
}

// redisBin finds redis-server: in the folder that the environment names, or on
// the PATH.
func redisBin() (string, error) {
	if dir, err := named("ATTEND_REDIS_BIN", "redis-server"); dir != "" || err != nil {
		return filepath.Join(dir, "redis-server"), err
	}
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: there is no redis-server on the PATH", ErrMissing)
	}
	return filepath.Abs(bin)
}

func (*redis) name() string    { return "Redis" }
func (*redis) users() []string { return []string{"redis", "nobody"} }

// redisConf writes settings as lines of redis.conf. Some take several words;
// any other value is one.
func redisConf(settings map[string]string) (string, error) {
	defaults := map[string]string{
		"save":        "",
		"appendonly":  "yes",
		"appendfsync": "always",
	}
	own := []string{"port", "bind", "dir", "daemonize", "logfile", "pidfile", "supervised", "requirepass", "include", "unixsocket", "tls-port"}
	several := []string{"save", "client-output-buffer-limit", "oom-score-adj-values", "latency-tracking-info-percentiles", "user", "rename-command"}
	name := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	return conf(defaults, own, name, settings, func(k, v string) string {
		words := []string{v}
		if slices.Contains(several, k) && v != "" {
			words = strings.Fields(v)
		}
		for _, w := range words {
			k += " " + redisQuote(w)
		}
		return k
	})
}

// redisQuote spells each byte that could mean something as a number.
func redisQuote(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(v) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (r *redis) prepare(_ context.Context, s *Server) error {
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return err
	}
	if err := s.as.own(s.data()); err != nil {
		return err
	}
	conf := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nlogfile \"\"\nrequirepass %s\n", s.port, redisQuote(s.data()), s.password)
	return s.write(filepath.Join(s.dir, "redis.conf"), conf+r.settings)
}

func (r *redis) command(s *Server) *exec.Cmd {
	cmd := exec.Command(r.bin, filepath.Join(s.dir, "redis.conf"))
	cmd.Dir = s.data()
	return cmd
}

// ready asks the server that knows our password. It answers otherwise while it
// loads its data.
func (r *redis) ready(ctx context.Context, s *Server) (bool, error) {
	c, err := dial(ctx, s.port)
	if err != nil {
		return false, nil // nobody listens yet
	}
	defer c.Close()
	if _, err := io.WriteString(c, "*2\r\n$4\r\nAUTH\r\n$"+strconv.Itoa(len(s.password))+"\r\n"+s.password+"\r\n*1\r\n$4\r\nPING\r\n"); err != nil {
		return false, nil
	}
	in := bufio.NewReader(c)
	for _, want := range []string{"+OK\r\n", "+PONG\r\n"} {
		if line, err := in.ReadString('\n'); err != nil || line != want {
			return false, nil
		}
	}
	return true, nil
}

func (*redis) taken(log string) bool {
	return strings.Contains(log, "Address already in use") || strings.Contains(log, "Failed listening on port")
}

func (*redis) end(p *process) error { return p.terminate() }

func (*redis) clean(*Server) {} // it is all in its folder

func (*redis) url(s *Server) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword("default", s.password), Host: address(s.port), Path: "/0"}
	return u.String()
}
