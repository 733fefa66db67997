package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// whole holds the servers of the whole test process. A process has one of each,
// since starting PostgreSQL takes longer than most tests.
var whole = &holder{}

type holder struct {
	postgres, redis slot
}

// A slot is a server that is started when it is first asked for.
type slot struct {
	mu      sync.Mutex
	started bool
	server  *Server
	err     error
}

// Postgres returns the PostgreSQL server of this test process, or that of
// ATTEND_TEST_POSTGRES, which Kill and Restart refuse. Where PostgreSQL is not
// installed the test is skipped, and fails if CI is set. Tests share the server:
// each keeps to a schema or a prefix of its own.
func Postgres(tb testing.TB) *Server {
	tb.Helper()
	return whole.postgres.get(tb, "ATTEND_TEST_POSTGRES", &postgres{}, StartPostgres)
}

// Redis is [Postgres] for Redis and ATTEND_TEST_REDIS.
func Redis(tb testing.TB) *Server {
	tb.Helper()
	return whole.redis.get(tb, "ATTEND_TEST_REDIS", &redis{}, StartRedis)
}

// Main runs the tests, stops the servers that [Postgres] and [Redis] started,
// and returns the code to exit with. It is for TestMain. Without it the servers
// end a moment after the test process.
func Main(m *testing.M) int {
	code := m.Run()
	for _, s := range []*slot{&whole.postgres, &whole.redis} { //check:allow global what whole holds ends here
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err) //check:allow output a test process has nothing else to say it with
			code = max(code, 1)
		}
	}
	return code
}

func (s *slot) get(tb testing.TB, env string, k kind, start func(context.Context, Config) (*Server, error)) *Server {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		if url := os.Getenv(env); url != "" {
			s.server = &Server{kind: k, url: url, foreign: env}
		} else {
			s.server, s.err = start(context.Background(), Config{})
		}
	}
	switch {
	case errors.Is(s.err, ErrMissing) && os.Getenv("CI") == "":
		tb.Skipf("%v; install it, or name one in %s", s.err, env)
	case s.err != nil:
		tb.Fatalf("%v (%s can name another one)", s.err, env)
	}
	return s.server
}

func (s *slot) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	return s.server.Stop()
}
