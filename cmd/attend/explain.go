package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/inspect"
	"github.com/attend-go/attend/stores/bolt"
	"github.com/spf13/cobra"
)

// A look says where a command looks: at a server, or at a store without one.
type look struct {
	f             *flags
	server, token string
	store, prefix string
}

func (l *look) flags(f *flags) {
	l.f = f
	serverFlags(f, &l.server, &l.token)
	f.text(&l.store, "store", "", "`store` to look at instead: sqlite:FILE, bolt:FILE, postgres://… or redis://…")
	f.text(&l.prefix, "store-prefix", "", "`prefix` of its tables (default attend_) or keys (default attend:{app}:)")
}

// read sets what no flag did, and says which of the two it is. ATTEND_STORE is
// most likely there for attend serve, so that a server which is named wins over it.
func (l *look) read() error {
	if err := l.f.readEnvironment(); err != nil {
		return err
	}
	flag := l.f.cmd.Flags().Changed
	switch {
	case flag("server") && flag("store"):
		return errors.New("want --server or --store, not both")
	case l.f.setting("server").place != "" && !flag("store"):
		l.store = ""
	}
	return nil
}

// inStore calls f with the store that is to be looked at. It makes none.
func (l *look) inStore(ctx context.Context, log io.Writer, f func(attend.ScopeStore) error) (err error) {
	p, name, err := placeWith(l.store, l.prefix)
	if err != nil {
		return l.f.at(name, err)
	}
	switch p.kind {
	case kindMemory:
		return l.f.at("store", errors.New("there is nothing in a new memory store; want another, or --server"))
	case kindSQLite, kindBolt:
		file, _, _ := strings.Cut(strings.TrimPrefix(p.at, "file:"), "?")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return &failure{fmt.Errorf("there is no store: %w", err)}
		}
	}
	if name, err := p.check(); err != nil {
		return l.f.at(name, err)
	}
	p.log = newLogger(log)
	s, err := p.open(ctx)
	if errors.Is(err, bolt.ErrLocked) {
		err = fmt.Errorf("%w; --server asks a server that has it", err)
	}
	if err != nil {
		return &failure{err}
	}
	defer func() {
		if closed := closeStore(s); err == nil && closed != nil {
			err = &failure{closed}
		}
	}()
	if err := f(s); err != nil {
		return &failure{err}
	}
	return nil
}

// inServer asks the server.
func (l *look) inServer(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	c, err := newClient(l.server, l.token)
	if err != nil {
		return nil, err
	}
	b, err := c.Get(ctx, path, query)
	if err != nil {
		return nil, &failure{err}
	}
	return b, nil
}

// patient is how long a look may take.
const patient = time.Minute

func newExplain() *cobra.Command {
	var l look
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain SCOPE EVENT",
		Short: "Tells the life of one event",
		Long: `Tells the life of one event, by its id: which windows it was in, how they were
judged, what became of it, or why it woke nobody. It asks a server, or looks into a
store, which a running server may have open at the same time if it is no bbolt file.`,
		Example: `  attend explain repo/attend build-7
  attend explain --store sqlite:attend.db repo/attend build-7`,
		Args: wants("explain", "SCOPE", "EVENT"),
	}
	f := newFlags(cmd)
	l.flags(f)
	f.boolean(&asJSON, "json", "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := l.read(); err != nil {
			return err
		}
		q := inspect.Question{Scope: attend.Scope(args[0]), Event: args[1]}
		if err := q.Check(); err != nil {
			return errors.New(reason(err))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patient)
		defer cancel()
		x, err := l.explain(ctx, cmd.ErrOrStderr(), q)
		if err != nil {
			return err
		}
		if asJSON {
			return encodeJSON(cmd.OutOrStdout(), x)
		}
		text := x.Text(time.Local)
		if _, err := io.WriteString(cmd.OutOrStdout(), strings.TrimRight(text, "\n")+"\n"); err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}

// wants checks the arguments of a command by their names.
func wants(command string, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%s wants %s, and got %s", command, strings.Join(names, " and "), count(len(args), "argument"))
		}
		return nil
	}
}

// explain asks whom the flags name. What nobody knows is a failure.
func (l *look) explain(ctx context.Context, log io.Writer, q inspect.Question) (x inspect.Explanation, err error) {
	if l.store != "" {
		err = l.inStore(ctx, log, func(s attend.ScopeStore) error {
			if x, err = inspect.FromStore(ctx, s, q); err == nil && len(x.Lives) == 0 {
				err = errors.New(strings.TrimSpace(x.Text(time.Local)))
			}
			return err
		})
		return x, err
	}
	b, err := l.inServer(ctx, "/v1/explain", url.Values{"scope": {string(q.Scope)}, "event": {q.Event}})
	if err != nil {
		return x, err
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return x, &failure{fmt.Errorf("the answer can't be read: %w", err)}
	}
	return x, nil
}

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return &failure{err}
	}
	return nil
}
