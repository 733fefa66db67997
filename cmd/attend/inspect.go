package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/inspect"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var l look
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect SCOPE",
		Short: "Shows what is in a scope",
		Long: `Shows what is in a scope now: the window that piles up, the one that is held or
judged, what waits for its sink, and the last verdicts. It asks a server, or looks
into a store.`,
		Example: `  attend inspect repo/attend
  attend inspect --store postgres://localhost/app repo/attend`,
		Args: wants("inspect", "SCOPE"),
	}
	f := newFlags(cmd)
	l.flags(f)
	f.boolean(&asJSON, "json", "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := l.read(); err != nil {
			return err
		}
		scope := attend.Scope(args[0])
		if err := scope.Check(); err != nil {
			return errors.New(reason(err))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patient)
		defer cancel()
		x, err := l.scope(ctx, cmd.ErrOrStderr(), scope)
		if err != nil {
			return err
		}
		if asJSON {
			return encodeJSON(cmd.OutOrStdout(), x)
		}
		if _, err := io.WriteString(cmd.OutOrStdout(), scopeText(x, time.Local)); err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}

var errNoScope = errors.New("there is no such scope: nothing came in, it was forgotten, or it is not yours to see")

// scope asks whom the flags name.
func (l *look) scope(ctx context.Context, log io.Writer, scope attend.Scope) (x inspect.Scope, err error) {
	if l.store != "" {
		err = l.inStore(ctx, log, func(s attend.ScopeStore) error {
			state, err := inspect.Load(ctx, s, scope)
			if err != nil {
				return err
			}
			var ok bool
			if x, ok = inspect.Of(&state); !ok {
				return errNoScope
			}
			return nil
		})
		return x, err
	}
	b, err := l.inServer(ctx, "/v1/scopes", url.Values{"scope": {string(scope)}})
	if err != nil {
		return x, err
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return x, &failure{fmt.Errorf("the answer can't be read: %w", err)}
	}
	return x, nil
}

// shownEvents is how many events of a window people are shown.
const shownEvents = 20

// scopeText is a scope for people, with times of a place.
func scopeText(x inspect.Scope, in *time.Location) string {
	var b strings.Builder
	clock := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.In(in).Format(time.DateTime)
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, plain(fmt.Sprintf(format, args...)))
	}
	row("scope", "%s", x.Scope)
	row("last input", "%s", clock(x.At))
	row("next", "%s", clock(x.Due))
	window := func(name string, w attend.Window, more string) {
		row(name, "%s, since %s%s", count(len(w.Events), "event"), clock(w.Opened), more)
		for i, e := range w.Events {
			if left := len(w.Events) - shownEvents; i < left {
				if i == 0 {
					row("", "(%s before, see --json)", count(left, "event"))
				}
				continue
			}
			row("", "%-11s %s  %s  %s", e.Kind, e.ID, e.Name, cut(e.Text, restWidth))
		}
		if w.Dropped > 0 {
			row("", "(%s dropped)", count(w.Dropped, "event"))
		}
		if w.Gap {
			row("", "(a source lost events)")
		}
	}
	if len(x.Open.Events) > 0 {
		window("open", x.Open, "")
	} else {
		row("open", "nothing")
	}
	if x.Held != nil {
		window("held", *x.Held, ", until "+clock(x.HeldUntil))
	}
	if x.Slot != nil {
		more := fmt.Sprintf(", settled by %s", x.Slot.Window.Reason)
		if x.Slot.Attempts > 0 {
			more += fmt.Sprintf(", failed %dx: %s", x.Slot.Attempts, x.Slot.Message)
		}
		window("judging", x.Slot.Window, more)
	}
	row("waiting", "%s for the sink, %s for their handler", count(x.Decisions, "decision"), count(x.Letters, "dead letter"))
	for i := len(x.Recent) - 1; i >= 0; i-- {
		v := x.Recent[i]
		name := ""
		if i == len(x.Recent)-1 {
			name = "verdicts"
		}
		row(name, "%s  %-10s of %s, settled by %s", clock(v.At), v.Route, count(v.Events, "event"), v.Reason)
	}
	for _, c := range x.Cursors {
		row("source", "%s", c.Source)
	}
	return b.String()
}
