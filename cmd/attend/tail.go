package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/attend-go/attend/cmd/attend/internal/client"
	attend "github.com/attend-go/attend/core"
	"github.com/spf13/cobra"
)

// A tailCommand is what the flags of attend tail say.
type tailCommand struct {
	server, token, scope, after string
	notice, json                bool
}

func newTail() *cobra.Command {
	t := &tailCommand{}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follows a server's decisions",
		Long: `Follows the decisions of an attend server, from now on or behind a cursor, and goes
on by itself where the connection breaks. It ends when it is interrupted.`,
		Example: `  attend tail --scope repo/attend --notice
  attend tail --json | jq .route`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	serverFlags(f, &t.server, &t.token)
	f.text(&t.scope, "scope", "", "`prefix` of the scopes to follow")
	f.text(&t.after, "after", "", "`cursor` to begin behind, as a line of --json has it")
	f.boolean(&t.notice, "notice", "print what the agent reads, too")
	f.boolean(&t.json, "json", "print decisions as JSON, a line each")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.readEnvironment(); err != nil {
			return err
		}
		c, err := newClient(t.server, t.token)
		if err != nil {
			return err
		}
		if _, err := attend.ParseLogCursor(t.after); err != nil {
			return errors.New("invalid --after: want a cursor that this server gave out")
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := interrupted(ctx, t.follow(ctx, c, cmd.OutOrStdout(), cmd.ErrOrStderr())); err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}

func (t *tailCommand) follow(ctx context.Context, c *client.Client, out, errOut io.Writer) error {
	log := newLogger(errOut)
	query := make(url.Values)
	for name, value := range map[string]string{"scope": t.scope, "after": t.after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	color := colored(out)
	return c.Follow(ctx, query, func(m client.Message) error {
		switch m.Type {
		case "decision":
			return t.print(out, m.Data, color)
		case "unreadable":
			log.Warn("a decision can't be read, and is left out", "cursor", m.ID)
		case "truncated":
			log.Warn("decisions were missed: they are kept no longer; see --retain-count and --retain-age of attend serve")
		}
		return nil
	}, func(err error) { log.Warn("the connection broke, trying again", "err", err) })
}

// print prints one decision.
func (t *tailCommand) print(w io.Writer, data json.RawMessage, color bool) error {
	if t.json {
		_, err := fmt.Fprintf(w, "%s\n", data)
		return err
	}
	var d attend.Decision
	var more struct {
		Notice string `json:"notice"`
	}
	if err := errors.Join(json.Unmarshal(data, &d), json.Unmarshal(data, &more)); err != nil {
		return fmt.Errorf("a decision can't be read: %w", err)
	}
	style, end := "", ""
	if color && d.Route == attend.RouteInterrupt {
		style, end = "\x1b[1m", "\x1b[0m"
	}
	line := fmt.Sprintf("%s%s  %s  %-10s %s%s\n", style, d.At.Local().Format("15:04:05.000"),
		pad(head(plain(string(d.Scope())), scopeWidth), scopeWidth), plain(string(d.Route)), plain(headline(d.Window)), end)
	if t.notice {
		for text := range strings.SplitSeq(more.Notice, "\n") {
			line += "  | " + plain(text) + "\n"
		}
	}
	_, err := io.WriteString(w, line)
	return err
}

// interrupted is how a command ends that somebody stopped.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
