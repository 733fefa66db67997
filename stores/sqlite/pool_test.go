package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// A store in the app's own database keeps the same promises.
func TestNewConformance(t *testing.T) {
	pool := suite(func(t testing.TB, file string) attend.ScopeStore {
		s, err := sqlite.New(t.Context(), plain(t, file), sqlite.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
	conformance.Scope(t, pool)
	conformance.Log(t, pool)
	conformance.Concurrent(t, pool)
}

// The app's connections stay as they are, and db stays open.
func TestNewLeavesThePoolAlone(t *testing.T) {
	db := plain(t, newFile(t))
	runSQL(t, db, "CREATE TABLE notes(text)")
	s, err := sqlite.New(t.Context(), db, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x")})
	if _, err := s.Load(t.Context(), "ops"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use after Close, want none", n)
	}
	// All that the pool may hold, at once.
	for range 5 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var only, busy int
		row := c.QueryRowContext(t.Context(), "SELECT * FROM pragma_query_only, pragma_busy_timeout")
		if err := row.Scan(&only, &busy); err != nil || only != 0 || busy != 5000 {
			t.Errorf("a connection of the app has query_only=%d and busy_timeout=%d (%v), want the driver's 0 and 5000", only, busy, err)
		}
	}
	runSQL(t, db, "INSERT INTO notes VALUES('x')")
}

func TestNewRefuses(t *testing.T) {
	memory, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	few := plain(t, newFile(t))
	few.SetMaxOpenConns(1)
	other := sql.OpenDB(otherDriver{})
	defer other.Close()
	for name, db := range map[string]*sql.DB{"in memory": memory, "of one connection": few, "of another driver": other} {
		if s, err := sqlite.New(t.Context(), db, sqlite.Config{}); !errors.Is(err, attend.ErrInvalid) {
			t.Errorf("New of a database %s = %v, want ErrInvalid", name, err)
			if err == nil {
				s.Close()
			}
		}
	}
}

// otherDriver is somebody else's.
type otherDriver struct{}

func (otherDriver) Driver() driver.Driver                        { return nil }
func (otherDriver) Connect(context.Context) (driver.Conn, error) { return otherDriver{}, nil }
func (otherDriver) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("none") }
func (otherDriver) Close() error                                 { return nil }
func (otherDriver) Begin() (driver.Tx, error)                    { return nil, errors.New("none") }

// A pool that the app has emptied is waited for, and not for ever.
func TestPoolIsEmpty(t *testing.T) {
	db := plain(t, newFile(t))
	db.SetMaxOpenConns(9)
	for range 8 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for _, more := range []int{1, 0} { // the first one goes through, and the next one does not; or none
		s, err := sqlite.New(t.Context(), db, sqlite.Config{Patience: 100 * time.Millisecond})
		if err == nil {
			s.Close()
			t.Fatalf("New, where %d connections are left = nil, want an error", more)
		}
		if !strings.Contains(err.Error(), "no connection of the *sql.DB is free") {
			t.Errorf("New, where %d connections are left = %v, want an error that says so", more, err)
		}
		if more > 0 {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
	}
}
