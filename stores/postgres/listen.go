package postgres

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// How a connection for notifications is held. One whose server has gone silent
// is noticed after at most quiet and answer.
const (
	quiet       = 2 * time.Second // without a word, before the server is asked
	answer      = 2 * time.Second // for it to answer
	dial        = 5 * time.Second // to connect
	shortRetry  = 100 * time.Millisecond
	longestWait = 5 * time.Second
)

// listen hears the server's notifications on a channel until ctx ends, and calls
// kick for each, and whenever some may have been missed. heard says whether it
// has a connection.
func listen(ctx context.Context, c Config, channel string, heard *atomic.Bool, kick func()) {
	wait := shortRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := listenOnce(ctx, c, channel, heard, kick)
		if had := heard.Swap(false); had || wait == shortRetry {
			if ctx.Err() == nil {
				c.Logger.Warn("attend: no notifications from the server; the log is polled", "err", err)
			}
			kick()
		}
		if time.Since(began) > longestWait {
			wait = shortRetry
		}
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, longestWait)
	}
}

// listenOnce hears over one connection until it breaks.
func listenOnce(ctx context.Context, c Config, channel string, heard *atomic.Bool, kick func()) error {
	cfg, err := parse("Listen", c.Listen)
	if err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, dial)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		// What is closed is of no use any more; the error says only that.
		_ = conn.Close(closing)
	}()
	if _, err := conn.PgConn().Exec(connecting, "LISTEN "+pgx.Identifier{channel}.Sanitize()).ReadAll(); err != nil {
		return err
	}
	heard.Store(true)
	for {
		kick() // the first time for what came before
		if err := notified(ctx, conn); err != nil {
			return err
		}
	}
}

// notified returns at the next notification. A server that says nothing for a
// while is asked for a sign of life: a connection can be dead on one side alone.
func notified(ctx context.Context, conn *pgx.Conn) error {
	for {
		silence, cancel := context.WithTimeout(ctx, quiet)
		_, err := conn.WaitForNotification(silence)
		cancel()
		if err == nil || ctx.Err() != nil || silence.Err() == nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, answer)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return err
		}
	}
}
