package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/attend-go/attend/cmd/attend/internal/client"
	attend "github.com/attend-go/attend/core"
	"github.com/spf13/cobra"
)

// A pushCommand is what the flags of attend push say.
type pushCommand struct {
	server, token         string
	scope, id, name, text string
	data                  string
	flush, end            bool
	json, strict          bool
}

func newPush() *cobra.Command {
	p := &pushCommand{}
	cmd := &cobra.Command{
		Use:   "push [FILE]",
		Short: "Brings events to a server, from a file or from flags",
		Long: `Brings events to an attend server.

FILE is NDJSON in the form of POST /v1/ingest, - is standard input: a line is an
event with its scope (scope, id, at, name, text, data), or {"scope":…,"flush":true}
or {"scope":…,"end":true}. A bad line is left out and reported by its number, and
the exit code is 1 for it only with --strict. Lines that the server has no room for
now are brought again for a while, and if that does not help the exit code is 1.
Those that it has taken stay taken when push fails; of a file that is brought again,
an event is a duplicate as long as its scope remembers it (--seen-count of attend
serve).

Without FILE the flags say one event, and the exit code is 1 if it was rejected.
--flush and --end settle its scope, with the event or without one.`,
		Example: `  attend push --scope repo/attend --name build.finished --text 'build 7 is green'
  attend push --scope repo/attend --flush
  attend push events.ndjson
  tail -f events.ndjson | attend push -`,
		Args: cobra.MaximumNArgs(1),
	}
	f := newFlags(cmd)
	serverFlags(f, &p.server, &p.token)
	f.text(&p.scope, "scope", "", "`scope` of the event")
	f.text(&p.name, "name", "", "what happened, such as build.finished")
	f.text(&p.id, "id", "", "the event's `id`; made up, and printed with --json, where there is none")
	f.text(&p.text, "text", "", "one line for people")
	f.text(&p.data, "data", "", "`JSON` of the event")
	f.boolean(&p.flush, "flush", "settle the scope now")
	f.boolean(&p.end, "end", "say that a unit of work in the scope is finished")
	f.boolean(&p.json, "json", "print the result as JSON")
	f.boolean(&p.strict, "strict", "exit with 1 if a line was rejected")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.readEnvironment(); err != nil {
			return err
		}
		return p.run(cmd, args)
	}
	return cmd
}

// serverFlags says which server a command works with.
func serverFlags(f *flags, server, token *string) {
	f.text(server, "server", "http://127.0.0.1:8787", "`URL` of the server, or unix:PATH of its socket")
	f.text(token, "token", "", "bearer `token`; better in ATTEND_TOKEN, where other users don't see it")
}

// newClient is a client of the server that the flags name.
func newClient(server, token string) (*client.Client, error) {
	c, err := client.New(server, token)
	switch {
	case errors.Is(err, client.ErrToken):
		return nil, fmt.Errorf("invalid --token: %w", err)
	case err != nil:
		return nil, fmt.Errorf("invalid --server: %w", err)
	}
	return c, nil
}

func (p *pushCommand) run(cmd *cobra.Command, args []string) error {
	c, err := newClient(p.server, p.token)
	if err != nil {
		return err
	}
	var in io.Reader
	switch {
	case len(args) == 1 && p.described():
		return errors.New("push wants FILE or the flags of an event, not both")
	case len(args) == 0 && !p.described():
		return errors.New("push wants FILE, - for standard input, or the flags of an event; see attend help push")
	case len(args) == 0:
		lines, err := p.lines()
		if err != nil {
			return err
		}
		in = bytes.NewReader(lines)
	case args[0] == "-":
		in = cmd.InOrStdin()
	default:
		file, err := os.Open(args[0])
		if err != nil {
			return &failure{err}
		}
		defer file.Close()
		in = file
	}
	u := newUpload(c, in, cmd.ErrOrStderr(), newLogger(cmd.ErrOrStderr()))
	err = u.run(cmd.Context())
	if err = errors.Join(err, p.print(cmd.OutOrStdout(), u)); err == nil {
		err = u.outcome(p.strict || len(args) == 0)
	}
	if err != nil {
		return &failure{err}
	}
	return nil
}

// described reports whether flags say an event.
func (p *pushCommand) described() bool {
	return p.scope != "" || p.name != "" || p.id != "" || p.text != "" || p.data != "" || p.flush || p.end
}

// lines are the event that the flags say, and what settles it.
func (p *pushCommand) lines() ([]byte, error) {
	if p.flush && p.end {
		return nil, errors.New("push wants --flush or --end, not both")
	}
	if err := attend.Scope(p.scope).Check(); err != nil {
		return nil, fmt.Errorf("invalid --scope: %s", reason(err))
	}
	type event struct {
		Scope string          `json:"scope"`
		ID    string          `json:"id,omitempty"`
		Name  string          `json:"name,omitempty"`
		Text  string          `json:"text,omitempty"`
		Data  json.RawMessage `json:"data,omitempty"`
		At    int64           `json:"at,omitempty"`
		Flush bool            `json:"flush,omitempty"`
		End   bool            `json:"end,omitempty"`
	}
	for _, x := range [...]struct{ flag, value string }{{"id", p.id}, {"name", p.name}, {"text", p.text}, {"data", p.data}} {
		if !utf8.ValidString(x.value) { // JSON would mend it
			return nil, fmt.Errorf("invalid --%s: want valid UTF-8", x.flag)
		}
	}
	var list []event
	switch {
	case p.name != "":
		if p.data != "" && !json.Valid([]byte(p.data)) {
			return nil, errors.New("invalid --data: want JSON")
		}
		if p.id == "" {
			p.id = rand.Text()
		}
		e := event{Scope: p.scope, ID: p.id, Name: p.name, Text: p.text, At: time.Now().UnixMilli()}
		if p.data != "" {
			e.Data = json.RawMessage(p.data)
		}
		list = append(list, e)
	case p.id != "" || p.text != "" || p.data != "":
		return nil, errors.New("an event wants --name")
	case !p.flush && !p.end:
		return nil, errors.New("push wants --name for an event, --flush or --end")
	}
	if p.flush || p.end {
		list = append(list, event{Scope: p.scope, Flush: p.flush, End: p.end})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range list {
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

type pushResult struct {
	ID         string `json:"id,omitempty"` // of the event that flags said
	Accepted   int    `json:"accepted"`
	Duplicates int    `json:"duplicates"`
	Rejected   int    `json:"rejected"`
}

func (p *pushCommand) print(w io.Writer, u *upload) error {
	if p.json {
		return json.NewEncoder(w).Encode(pushResult{p.id, u.accepted, u.duplicates, u.rejected})
	}
	_, err := fmt.Fprintf(w, "%s accepted, %s, %d rejected\n", count(u.accepted, "line"), count(u.duplicates, "duplicate"), u.rejected)
	return err
}
