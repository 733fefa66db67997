//go:build cgo

package main

import (
	"context"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// noSQLite says why this binary has no SQLite; it has.
const noSQLite = ""

func openSQLite(ctx context.Context, file string, keep attend.Retain) (attend.ScopeStore, error) {
	return sqlite.Open(ctx, file, sqlite.Config{Retain: keep})
}
