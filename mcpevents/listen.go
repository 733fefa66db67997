package mcpevents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"
)

// Listen asks to be told when the catalogue changes, by subscriptions/listen, and
// yields when it does, once for all changes that wait. It ends without an error
// where the server does not grant that, where its revision of the protocol has no
// such request, and when the server closes it; an error is the last pair. Leaving
// the loop ends it at the server too.
func (s *Session) Listen(ctx context.Context) iter.Seq2[struct{}, error] {
	return s.listen(ctx, func() {})
}

// listen is Listen; granted is called when the server grants it.
func (s *Session) listen(ctx context.Context, granted func()) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		if !s.offered {
			yield(struct{}{}, ErrNotOffered)
			return
		}
		if !s.stateless {
			return
		}
		x, err := s.start(ctx, methodListen, map[string]any{"notifications": map[string]bool{"eventsListChanged": true}}, 0)
		if err != nil {
			yield(struct{}{}, err)
			return
		}
		defer x.Close()
		for {
			n, err := x.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(struct{}{}, s.trouble(ctx, err))
				return
			}
			switch n.Method {
			case noteAcknowledged:
				var p struct {
					Notifications struct {
						Events bool `json:"eventsListChanged"`
					} `json:"notifications"`
				}
				if json.Unmarshal(n.Params, &p) == nil && !p.Notifications.Events {
					return
				}
				granted()
			case noteListChanged:
				if !x.Ready() && !yield(struct{}{}, nil) {
					return
				}
			}
		}
	}
}

// How long the session waits between two looks at a catalogue that changes, and
// before it listens again.
const (
	listenPause = time.Second
	listenRetry = time.Minute
)

// watch keeps the catalogue up to date for the followers of the session, from the
// first call on.
func (s *Session) watch() {
	if !s.announces || !s.stateless {
		return
	}
	s.watchOnce.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return
		}
		s.wg.Go(func() {
			for {
				granted := false
				var last error
				// What changed before the server listened, it did not tell.
				listening := func() { granted = true; s.catalogue.outdateBefore(time.Now()) }
				for _, err := range s.listen(s.ctx, listening) {
					if last = err; err != nil {
						break
					}
					granted = true
					s.catalogue.outdate()
					if !sleep(s.ctx, listenPause) {
						return
					}
				}
				if last == nil && !granted || last != nil && Permanent(last) || s.Err() != nil {
					return
				}
				if !sleep(s.ctx, listenRetry) {
					return
				}
			}
		})
	})
}

// sleep waits, and reports whether it was not cut short by ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
