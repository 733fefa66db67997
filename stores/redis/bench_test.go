package redis_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	"github.com/attend-go/attend/conformance/storebench"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
	"github.com/redis/rueidis"
)

// BenchmarkStore is on a server that syncs each commit.
func BenchmarkStore(b *testing.B) { bench(b, "always") }

// BenchmarkEverysec may lose about a second.
func BenchmarkEverysec(b *testing.B) { bench(b, "everysec") }

// bench measures a server whose append-only file is synced so. The peer is what
// people do who only keep the events: XADD to one stream, a pipeline a batch. The
// floor is one SET a group.
func bench(b *testing.B, fsync string) {
	var one benched
	storebench.Run(b, storebench.Subject{
		New: func(tb testing.TB) attend.ScopeStore {
			return open(tb, one.start(tb, b, fsync).URL(), one.options())
		},
		Peer: func(tb testing.TB) func([][]byte) error {
			c := connect(tb, one.server.URL())
			return func(bodies [][]byte) error {
				cmds := make([]rueidis.Completed, len(bodies))
				for i, body := range bodies {
					cmds[i] = c.B().Xadd().Key("peer").Maxlen().Almost().Threshold("200000").Id("*").FieldValue().FieldValue("b", string(body)).Build()
				}
				for _, r := range c.DoMulti(context.Background(), cmds...) {
					if err := r.Error(); err != nil {
						return err
					}
				}
				return nil
			}
		},
		Floor: func(tb testing.TB) func([]byte) error {
			c := connect(tb, one.server.URL())
			return func(record []byte) error {
				return c.Do(context.Background(), c.B().Set().Key("floor").Value(rueidis.BinaryString(record)).Build()).Error()
			}
		},
		Bytes: func(tb testing.TB, s attend.ScopeStore) int64 { return one.bytes(tb) },
		Sizes: []storebench.Size{{Name: "memory", Bytes: func(tb testing.TB, s attend.ScopeStore) int64 { return one.memory(tb) }}},
	})
}

// benched is the one server of a benchmark, emptied for each of its parts.
type benched struct {
	once   sync.Once
	server *servers.Server
	dir    string
	o      *redis.Config
}

func (s *benched) start(tb, whole testing.TB, fsync string) *servers.Server {
	s.once.Do(func() {
		servers.Redis(tb) // which skips, or fails, where there is none
		var err error
		if s.dir, err = os.MkdirTemp("", "attend"); err != nil {
			tb.Fatal(err)
		}
		whole.Cleanup(func() { os.RemoveAll(s.dir) })
		if err := os.Chmod(s.dir, 0o755); err != nil { // the server may run as another user
			tb.Fatal(err)
		}
		s.server, err = servers.StartRedis(context.Background(), servers.Config{
			Dir: filepath.Join(s.dir, "redis"), Settings: map[string]string{"appendfsync": fsync, "auto-aof-rewrite-percentage": "0"},
		})
		if err != nil {
			tb.Fatal(err)
		}
		whole.Cleanup(func() { s.server.Stop() })
	})
	connect(tb, s.server.URL()).do("FLUSHALL")
	return s.server
}

func (s *benched) options() *redis.Config {
	s.o = quiet()
	return s.o
}

// bytes is how large the append-only files are once they are rewritten.
func (s *benched) bytes(tb testing.TB) (n int64) {
	c := connect(tb, s.server.URL())
	c.do("BGREWRITEAOF")
	for done := false; !done; time.Sleep(100 * time.Millisecond) { // minutes, for millions of keys
		text, err := c.do("INFO", "persistence").ToString()
		if err != nil {
			tb.Fatal(err)
		}
		done = strings.Contains(text, "aof_rewrite_in_progress:0") && strings.Contains(text, "aof_rewrite_scheduled:0")
	}
	err := filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(e.Name(), ".aof") || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return nil // a file that is gone by now has no size
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// memory is how much memory the server has taken for its data.
func (s *benched) memory(tb testing.TB) int64 {
	text, err := connect(tb, s.server.URL()).do("INFO", "memory").ToString()
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "used_memory:")
	used, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
