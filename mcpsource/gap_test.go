package mcpsource_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// C3: a server that has dropped what we still wanted, or that was restarted
// without its history, sets the gap of the window; what it has is taken, each once.
func TestC3WhatAServerHasLostIsAGap(t *testing.T) {
	for _, mode := range []mcpevents.Mode{mcpevents.Push, mcpevents.Poll} {
		for _, c := range []struct {
			name string
			lose func(w *world) *world // while nobody follows
			want []string
			gaps int
		}{
			{"nothing", func(w *world) *world { w.append(3, 6); return w }, ids(0, 6), 0},
			{"history trimmed", func(w *world) *world { w.append(3, 12); w.append(12, 20); return w }, append(ids(0, 3), ids(10, 20)...), 1},
			{"restarted", func(w *world) *world {
				next := newWorld(w.t, mcpevents.ServerConfig{}, nil)
				next.append(1, 3) // some of it we had
				next.append(7, 9)
				return next
			}, append(ids(0, 3), ids(7, 9)...), 1},
			{"restarted with nothing", func(w *world) *world { return newWorld(w.t, mcpevents.ServerConfig{}, nil) }, ids(0, 3), 0},
		} {
			t.Run(fmt.Sprint(mode, "/", c.name), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t, mcpevents.ServerConfig{}, mcpevents.NewLog(mcpevents.LogConfig{MaxEvents: 10}))
					store := memory.New()
					r := newRig(t, store)
					detach := r.attach(t, source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{Mode: mode}))
					time.Sleep(time.Second)
					w.append(0, 3)
					time.Sleep(10 * time.Second)
					_ = detach()
					r.stop()

					w = c.lose(w)
					next := newRig(t, store)
					detach = next.attach(t, source(t, w.session(mcpevents.SessionConfig{}), mcpsource.Config{Mode: mode}))
					time.Sleep(10 * time.Second)
					_ = detach()
					if got := append(r.heard(), next.heard()...); !slices.Equal(got, c.want) {
						t.Errorf("heard %v, want %v", got, c.want)
					}
					if got := next.gaps(); got != c.gaps {
						t.Errorf("%d windows with a gap, want %d", got, c.gaps)
					}
					if win, _ := next.Window(t.Context(), repo); c.name == "restarted with nothing" && !win.Gap {
						t.Error("the open window has no gap, and the server has lost its history")
					}
				})
			})
		}
	}
}

// C3: a server is restarted again and again, with its history and without, as its
// client follows through: what was lost shows, the rest is there once.
func TestC3AServerThatIsRestarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.ServerConfig{}, nil)
		current := w
		sessions := mcpsource.NewSessions(func(ctx context.Context) (*mcpevents.Session, error) {
			return current.dial(ctx, mcpevents.SessionConfig{})
		})
		r := newRig(t, nil)
		detach := r.attach(t, source(t, sessions, mcpsource.Config{}))
		time.Sleep(time.Second)
		var want []string
		for life := range 6 {
			current.append(life*10, life*10+5)
			want = append(want, ids(life*10, life*10+5)...)
			time.Sleep(time.Second)
			var log *mcpevents.Log // none: the history is lost
			if life%2 == 0 {
				log = current.log
			}
			old := current
			current = newWorld(t, mcpevents.ServerConfig{}, log)
			_ = old.ev.Close()
			for s := range old.mcp.Sessions() {
				_ = s.Close()
			}
			time.Sleep(time.Minute)
		}
		_ = detach()
		_ = sessions.Close()
		if got := r.heard(); !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
		if got := r.gaps(); got != 2 {
			t.Errorf("%d gaps, want one after each lost history that events followed", got)
		}
	})
}

// The whole way over HTTP, for both modes.
func TestC1OverHTTP(t *testing.T) {
	for _, mode := range []mcpevents.Mode{"", mcpevents.Poll} {
		t.Run("mode "+strconv.Quote(string(mode)), func(t *testing.T) {
			w := newWorld(t, mcpevents.ServerConfig{NextPoll: 10 * time.Millisecond}, nil)
			session, err := over(t.Context(), w.serve(), nil)
			if err != nil {
				t.Fatalf("Connect: %v", err)
			}
			t.Cleanup(func() { _ = session.Close() })
			r := newRig(t, nil)
			src := source(t, session, mcpsource.Config{Mode: mode})
			detach := r.attach(t, src)
			until(t, "a cursor", func() bool { return r.cursor(t, src) != "" })
			w.append(0, 250)
			r.untilHeard(t, ids(0, 250))
			_ = detach()
		})
	}
}
