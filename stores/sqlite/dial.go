package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	attend "github.com/attend-go/attend/core"
)

// A dialer makes connections to one file, and the file too if it may.
type dialer func(ctx context.Context, create bool) (*conn, error)

// fileDialer makes connections of our own. It returns the file's absolute path
// too: a process may change its folder.
func fileDialer(file string) (dialer, string, error) {
	want := ""
	switch {
	case file == "":
		want = "a file's path"
	case strings.ContainsRune(file, 0):
		want = "a path without NUL"
	case file == ":memory:", strings.HasPrefix(file, "file:"):
		want = "the path of a file, no URI and no database in memory"
	}
	if want != "" {
		return nil, "", &attend.InvalidError{Field: "file", Want: want}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, "", err
	}
	// A URI, so that no character of the path means anything else.
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	uri := (&url.URL{Scheme: "file", Path: path}).String() + "?_mutex=no&_busy_timeout=0&_synchronous=FULL&mode="
	return func(_ context.Context, create bool) (*conn, error) {
		mode := "rw"
		if create {
			mode = "rwc"
		}
		c, err := new(sqlite3.SQLiteDriver).Open(uri + mode)
		if err != nil {
			return nil, err
		}
		return newConn(c, nil)
	}, file, nil
}

// poolDialer takes connections out of the caller's pool, for good: they keep
// what the caller's driver was told, such as extensions and hooks.
func poolDialer(db *sql.DB) dialer {
	return func(ctx context.Context, _ bool) (*conn, error) {
		pool, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		var c *conn
		err = pool.Raw(func(x any) (err error) {
			c, err = newConn(x, pool)
			return err
		})
		if err != nil {
			pool.Close()
			return nil, err
		}
		return c, nil
	}
}

func newConn(x any, pool *sql.Conn) (*conn, error) {
	c, ok := x.(*sqlite3.SQLiteConn)
	if !ok {
		return nil, &attend.InvalidError{Field: "db", Want: fmt.Sprintf("connections of github.com/mattn/go-sqlite3, not %T", x)}
	}
	return &conn{c: c, pool: pool, stmts: make(map[string]*sqlite3.SQLiteStmt)}, nil
}

// poolFile returns the file under the caller's pool.
func poolFile(ctx context.Context, dial dialer) (string, error) {
	c, err := dial(ctx, false)
	if err != nil {
		return "", err
	}
	defer c.pool.Close() // back, as it was
	var file string
	err = c.hold(func() error {
		file = c.c.GetFilename("main")
		return nil
	})
	if err == nil && file == "" {
		err = &attend.InvalidError{Field: "db", Want: "a database in a file: one in memory belongs to one connection"}
	}
	return file, err
}
