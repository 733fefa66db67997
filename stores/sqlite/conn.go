package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// A conn is one connection with its prepared statements. One goroutine uses it
// at a time. None of its calls has a context: with one the driver starts a
// goroutine for each statement.
type conn struct {
	c     *sqlite3.SQLiteConn
	pool  *sql.Conn // the place of c in the caller's pool; nil: c is our own
	stmts map[string]*sqlite3.SQLiteStmt
	wrote int64 // about how many bytes, since a transaction began
}

// changeBytes is what a change of a row writes about, beside its bytes: between
// a few of a row that goes to the end of a table, and a page of one that goes
// somewhere into an index.
const changeBytes = 1024

// hold calls f while the connection is ours. Nothing of a conn that is from a
// caller's pool is used outside of it.
func (c *conn) hold(f func() error) error {
	if c.pool == nil {
		return f()
	}
	var err error
	if e := c.pool.Raw(func(any) error { err = f(); return nil }); e != nil {
		return e
	}
	return err
}

// close ends the connection. One of the caller's pool is not given back: its
// settings are ours.
func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close() // says again what its last call said
	}
	if c.pool == nil {
		return c.c.Close()
	}
	err := c.pool.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	if e := c.pool.Close(); err == nil && !errors.Is(e, sql.ErrConnDone) {
		err = e
	}
	return err
}

func (c *conn) stmt(q string) (*sqlite3.SQLiteStmt, error) {
	if s := c.stmts[q]; s != nil {
		return s, nil
	}
	s, err := c.c.Prepare(q)
	if err != nil {
		return nil, err
	}
	st, ok := s.(*sqlite3.SQLiteStmt)
	if !ok {
		return nil, fmt.Errorf("a prepared statement is a %T", s)
	}
	c.stmts[q] = st
	return st, nil
}

// exec runs a statement that returns no rows, and tells how many it changed.
func (c *conn) exec(q string, args ...driver.Value) (changed int64, err error) {
	s, err := c.stmt(q)
	if err != nil {
		return 0, err
	}
	r, err := s.Exec(args)
	if err != nil {
		return 0, err
	}
	changed, err = r.RowsAffected()
	c.wrote += changed * changeBytes
	for _, a := range args {
		c.wrote += int64(len(blob(a)))
	}
	return changed, err
}

// set runs statements once, without keeping them.
func (c *conn) set(q string) error {
	_, err := c.c.Exec(q, nil)
	return err
}

// rows yields what a query finds. A row is valid until the next one; the bytes
// in it stay. An error is its last pair. Another query may run inside the loop,
// the same one may not.
func (c *conn) rows(q string, args ...driver.Value) iter.Seq2[[]driver.Value, error] {
	return func(yield func([]driver.Value, error) bool) {
		s, err := c.stmt(q)
		if err != nil {
			yield(nil, err)
			return
		}
		rows, err := s.Query(args)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close() // says again what Next said
		row := make([]driver.Value, len(rows.Columns()))
		for {
			err := rows.Next(row)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// row returns the first row that a query finds, nil for none.
func (c *conn) row(q string, args ...driver.Value) ([]driver.Value, error) {
	for row, err := range c.rows(q, args...) {
		return row, err
	}
	return nil, nil
}

// number returns the first column of the first row, 0 where there is none or
// it is NULL.
func (c *conn) number(q string, args ...driver.Value) (int64, error) {
	row, err := c.row(q, args...)
	if err != nil || row == nil {
		return 0, err
	}
	return integer(row[0]), nil
}

// integer is a column of type INTEGER, 0 for NULL.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// blob is a column of type BLOB, nil for NULL.
func blob(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// bytes is s as a BLOB. Names are kept as BLOBs, since they may be any bytes,
// and a TEXT ends at a NUL for some functions and is converted where a
// database's encoding is UTF-16. An empty one is not NULL.
func bytes[T ~string | ~[]byte](s T) []byte {
	if len(s) == 0 {
		return []byte{}
	}
	return []byte(s)
}
