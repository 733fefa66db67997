package redis_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/attend-go/attend/stores/redis"
)

// Retention that failed is tried again, though nobody adds to the log, and ever
// more rarely; it says so once.
func TestKeeperTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		began, left := time.Now(), 7
		var at []time.Duration
		poke, end := redis.Keep(slog.New(slog.NewTextHandler(&said, nil)), func(context.Context) (int, error) {
			at = append(at, time.Since(began).Round(time.Second))
			if left--; left > 0 {
				return 0, errors.New("no answer")
			}
			return 5, nil
		})
		poke()
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{0, 2, 6, 14, 30, 60, 90}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(at, want) {
			t.Errorf("retention that fails six times was tried at %v, want %v", at, want)
		}
		if n := strings.Count(said.String(), "retention failed"); n != 1 {
			t.Errorf("the log has %d lines of it, want one: %s", n, said.String())
		}
		end()
	})
}

// A keeper that finds little to do looks rarely, and one that has much to do
// does not rest.
func TestKeeperPauses(t *testing.T) {
	for _, c := range []struct {
		name          string
		deletes       int
		least, atMost int // runs in a minute of rows that never end
	}{{"nothing to do", 0, 50, 70}, {"a little", 10, 50, 70}, {"much", 400, 1000, 1201}} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			poke, end := redis.Keep(slog.New(slog.DiscardHandler), func(context.Context) (int, error) {
				runs++
				return c.deletes, nil
			})
			for range 6000 {
				poke()
				time.Sleep(10 * time.Millisecond)
			}
			end()
			if runs < c.least || runs > c.atMost {
				t.Errorf("%s: %d runs in a minute, want %d to %d", c.name, runs, c.least, c.atMost)
			}
		})
	}
}

// A keeper that is closed while it rests after a failure ends at once.
func TestKeeperEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poke, end := redis.Keep(slog.New(slog.DiscardHandler), func(context.Context) (int, error) { return 0, errors.New("no answer") })
		poke()
		time.Sleep(time.Second)
		began := time.Now()
		end()
		if d := time.Since(began); d > 0 {
			t.Errorf("closing took %v", d)
		}
	})
}
