package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/attend-go/attend/stores/postgres"
	"github.com/spf13/cobra"
)

// newMigrate is attend migrate, which a deploy runs before the servers.
func newMigrate() *cobra.Command {
	var grant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Makes the tables of a PostgreSQL store, or brings them up to date",
		Long: `Makes the tables of a PostgreSQL store, or brings those of an older release up
to date, in the first schema of the search path. All of it happens or none, and
it may be run again. Servers of the release before go on working meanwhile.

It needs a role that can create tables and that owns those that exist. A server
needs no more than SELECT, INSERT, UPDATE and DELETE, which --grant gives to the
role that it has.`,
		Example: `  attend migrate --store postgres://owner@db.example.com/attend --grant app
  ATTEND_STORE=postgres://owner@db.example.com/attend attend migrate`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.only = []string{"store", "store-prefix", settingConfig}
	s := serveTable(f)
	f.only = nil
	f.text(&grant, "grant", "", "`role` that may use the tables").inner = true
	f.boolean(&asJSON, "json", "print one line of JSON").inner = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.read(); err != nil {
			return err
		}
		p := new(plan)
		if err := s.planStore(f, p); err != nil {
			return err
		}
		if p.place.kind != kindPostgres {
			return f.at("store", errors.New("only PostgreSQL has tables to be made"))
		}
		p.place.log = slog.New(slog.DiscardHandler)
		return migrate(cmd, p.place, grant, asJSON)
	}
	return cmd
}

func migrate(cmd *cobra.Command, p place, grant string, asJSON bool) error {
	c := p.postgres()
	c.Role = grant
	if err := postgres.MigrateURL(cmd.Context(), p.at, c); err != nil {
		return &failure{oneLine(err)}
	}
	var err error
	if asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"prefix": p.prefix, "migrated": true})
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the tables with the prefix %s are up to date\n", p.prefix)
	}
	if err != nil {
		return &failure{err}
	}
	return nil
}

// oneLine is an error in one line: a driver's may have more.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " ")) //check:allow text put on one line; nothing is decided by it
}
