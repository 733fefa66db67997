//go:build !cgo

package main

import (
	"context"
	"errors"

	attend "github.com/attend-go/attend/core"
)

// noSQLite says why this binary has no SQLite.
const noSQLite = "this binary was built without cgo, which SQLite's driver needs; bolt:FILE needs none"

func openSQLite(context.Context, string, attend.Retain) (attend.ScopeStore, error) {
	return nil, errors.New(noSQLite)
}
