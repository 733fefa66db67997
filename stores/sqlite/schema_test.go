package sqlite

import (
	"errors"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// A file of an older release is brought up to date, once, and keeps what it has.
func TestMigrate(t *testing.T) {
	file := newFileIn(t)
	s := newStoreIn(t, file, Config{})
	add(t, s, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision})
	steps := append(schema(), "ALTER TABLE attend_log ADD COLUMN extra; CREATE INDEX attend_extra ON attend_log(extra)")
	for range 2 {
		if err := s.d.update(t.Context(), func(c *conn) error { return migrate(c, steps) }); err != nil {
			if errors.Is(err, attend.ErrNewer) {
				break // this release's own check, which has become the older one
			}
			t.Fatal(err)
		}
	}
	if _, err := s.Log().Bounds(t.Context()); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("Bounds after a newer release's migration = %v, want ErrNewer", err)
	}
	dial, _, err := fileDialer(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	version, err := versionOf(c)
	if err != nil || version != len(steps) {
		t.Errorf("the file's version is %d (%v), want %d", version, err, len(steps))
	}
	if n, err := c.number("SELECT count(*) FROM attend_log WHERE extra IS NULL"); err != nil || n != 1 {
		t.Errorf("%d rows with the new column (%v), want the one", n, err)
	}
	now, err := epoch(c, metaEpoch)
	if err != nil || now != s.log.Epoch {
		t.Errorf("the epoch is %q (%v), want that of before, %q", now, err, s.log.Epoch)
	}
	if err := migrate(c, schema()); !errors.Is(err, attend.ErrNewer) {
		t.Errorf("migrate by the older release = %v, want ErrNewer", err)
	}
}
