package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/redis/rueidis"
)

// A link is what a store and an event log have in common: a client, the head of
// a log in its hands, who waits for more of it, and an end.
type link struct {
	c       rueidis.Client
	own     bool // the client is ours to close
	keys    keyspace
	timeout time.Duration
	log     *slog.Logger

	head    string   // its key, and the channel where growth is told
	streams []string // that it is the head of
	hub     *hub
	keeper  *keeper // nil: everything is kept

	closing sync.Once
	done    chan struct{} // closed by close
}

// begin returns a context for one call, unless the link is closed. The caller
// calls end.
func (l *link) begin(ctx context.Context) (_ context.Context, end context.CancelFunc, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	select {
	case <-l.done:
		return nil, nil, attend.ErrClosed
	default:
	}
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}, nil
	}
	ctx, end = context.WithTimeoutCause(ctx, l.timeout, errTimeout)
	return ctx, end, nil
}

// noting is for how many milliseconds a script notes that it was run, so that a
// second run does nothing. Our own clients never send one again. One of the app's
// does so, whatever the command, when a connection's ConnLifetime ends; and a
// wrapper may do as it likes. It can't send anything once ctx has ended.
func (l *link) noting(ctx context.Context) string {
	if l.own {
		return "0"
	}
	const late, most = time.Second, time.Minute // until the server runs it
	end, _ := ctx.Deadline()                    // begin gave it one
	return strconv.FormatInt(min(max(time.Until(end), 0)+late, most).Milliseconds(), 10)
}

var (
	errTimeout  = errors.New("redis: timeout")
	errRestless = errors.New("the server is restarted over and over")
)

// failed says what was being done when err came about. Texts hold nothing of
// events, and no password.
func (l *link) failed(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, rueidis.ErrClosing) {
		select {
		case <-l.done:
			err = attend.ErrClosed
		default:
		}
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		switch text := e.Error(); {
		case strings.Contains(text, "WRONGTYPE"):
			err = fmt.Errorf("%w: a key under the prefix %s holds another kind of value", attend.ErrCorrupt, l.keys)
		case strings.Contains(text, "with args beginning with"): // which would be quoted
			err = errors.New("the server lacks a command")
		}
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("redis: %s: no answer within %v: %w", doing, l.timeout, err)
	}
	return fmt.Errorf("redis: %s: %w", doing, err)
}

// run runs a script that answers OK where the head is as it should be, and
// mends the head where it is not: nothing was done then.
func (l *link) run(ctx context.Context, s *script, in call) ([]string, error) {
	out, err := l.runAll(ctx, s, []call{in})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// runAll is run for several calls, in one trip where all goes well.
func (l *link) runAll(ctx context.Context, s *script, in []call) ([][]string, error) {
	for i := range in {
		in[i].keys = append(in[i].keys, mark(l.head))
	}
	out, err := s.runAll(ctx, l.c, in)
	if err != nil {
		return nil, err
	}
	for i := range out {
		for try := 0; out[i][0] == "LIFE" || out[i][0] == "SCHEMA"; try++ {
			if try == 3 {
				return nil, errRestless
			}
			if err := l.adopt(ctx); err != nil {
				return nil, err
			}
			if out[i], err = s.run(ctx, l.c, in[i]); err != nil {
				return nil, err
			}
		}
		if err := l.refused(out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// refused is the error in a script's answer.
func (l *link) refused(a []string) error {
	switch a[0] {
	case "OK":
		return nil
	case "CORRUPT":
		return fmt.Errorf("%w: a key of kind %s under the prefix %s holds what it should not", attend.ErrCorrupt, a[1], l.keys)
	case "ENCODING":
		return errors.New("the server has no SETRANGE or OBJECT ENCODING as Redis has them: data of another server would go unnoticed")
	case "FULL":
		return errors.New("the log has no positions left")
	}
	return fmt.Errorf("%w: a script under the prefix %s answered out of turn", attend.ErrCorrupt, l.keys)
}

// close ends what the link does by itself, and then the client if it is ours.
func (l *link) close() {
	l.closing.Do(func() {
		close(l.done)
		l.hub.close()
		if l.keeper != nil {
			l.keeper.close()
		}
		if l.own {
			l.c.Close()
		}
	})
}
