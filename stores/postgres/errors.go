package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
)

// ErrNotMigrated says that the tables are not there, or older than this release
// needs them: run [Migrate].
var ErrNotMigrated = errors.New("postgres: run Migrate")

// Codes of errors that the server answers with.
const (
	codeSerialization = "40001" // nothing was done
	codeDeadlock      = "40P01" // nothing was done
	codeNotNull       = "23502"
	codeNoTable       = "42P01"
	codeNoFunction    = "42883"
	codeNoPrivilege   = "42501"
	codeUnsupported   = "0A000"
	codeNoSuchObject  = "42704"
)

// code is the server's code of an error, empty for one that is not the
// server's.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// untouched reports whether err says that nothing was done and the same can be
// tried again at once.
func untouched(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock:
		return true
	}
	return pgconn.SafeToRetry(err)
}

// unreached reports whether err is none of the server's answers, and nothing
// that was made of one: a connection broke. What was asked may have been done.
func unreached(err error) bool {
	for _, answer := range []error{attend.ErrNotFound, attend.ErrCorrupt, pgx.ErrNoRows, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, answer) {
			return false
		}
	}
	_, scan := errors.AsType[pgx.ScanArgError](err)
	return !scan && code(err) == ""
}

// parse reads a connection string. The driver's own error could quote the
// password of one that it can't read, so it is left out.
func parse(field, conn string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return nil, &attend.InvalidError{Field: field, Want: "a connection string of PostgreSQL" + hint(conn)}
	}
	return cfg, nil
}

// hint says what is often wrong with a URL that can't be read.
func hint(conn string) string {
	if _, err := url.Parse(conn); err != nil {
		return "; in a URL the special characters of user and password are %-encoded"
	}
	return ""
}

// closedError is the error of a call on what was closed.
func closedError(what string) error { return fmt.Errorf("postgres: %s: %w", what, attend.ErrClosed) }
