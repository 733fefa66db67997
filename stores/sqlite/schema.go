package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

// The tables, as the steps that made them: a file's version is how many of
// them it has had. A step that was released is never changed.
//
// Names and ids are BLOBs, compared byte by byte. What is long comes last in a
// row, so that looking at the rest does not read it.
func schema() []string {
	return []string{`
CREATE TABLE attend_meta(name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE attend_marks(
	id INTEGER PRIMARY KEY CHECK(id = 1),
	journal INTEGER NOT NULL DEFAULT 0, -- the newest seq when the journal became empty
	indexed INTEGER NOT NULL DEFAULT 0, -- rows of the log up to here are in its index
	kept INTEGER NOT NULL DEFAULT 0, -- of those, decisions and dead letters
	kept_verdicts INTEGER NOT NULL DEFAULT 0,
	trimmed INTEGER NOT NULL DEFAULT 0,
	trimmed_verdicts INTEGER NOT NULL DEFAULT 0,
	trimmed_events INTEGER NOT NULL DEFAULT 0);
INSERT INTO attend_marks(id) VALUES(1);

CREATE TABLE attend_journal(seq INTEGER PRIMARY KEY, tag INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE attend_scopes(
	id INTEGER PRIMARY KEY, scope BLOB NOT NULL UNIQUE, version INTEGER NOT NULL, seq INTEGER NOT NULL,
	due INTEGER, body BLOB NOT NULL);
CREATE INDEX attend_scopes_due ON attend_scopes(due, scope) WHERE due IS NOT NULL;

CREATE TABLE attend_log(
	pos INTEGER PRIMARY KEY, type BLOB NOT NULL, scope BLOB NOT NULL, id BLOB NOT NULL,
	at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE attend_log_index(key INTEGER NOT NULL, pos INTEGER NOT NULL, PRIMARY KEY(key, pos)) WITHOUT ROWID;

CREATE TABLE attend_events(
	pos INTEGER PRIMARY KEY, scope BLOB NOT NULL, id BLOB NOT NULL, taken INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE attend_events_index(key INTEGER NOT NULL, pos INTEGER NOT NULL, PRIMARY KEY(key, pos)) WITHOUT ROWID;
CREATE TABLE attend_events_trimmed(scope BLOB PRIMARY KEY, pos INTEGER NOT NULL) WITHOUT ROWID;`,
	}
}

// What attend_meta holds.
const (
	metaVersion = "version" // how many steps of the schema the file has had
	metaEpoch   = "epoch"   // of the decision log
	metaEvents  = "events"  // the epoch of the event log
	metaFile    = "file"    // which file of the file system it is
)

// create makes the tables or brings them up to date. Several processes may do
// so at once: one of them does it, the others find it done. In a shared file
// other tables may stand beside attend's.
func (d *database) create(ctx context.Context, shared bool) error {
	until := time.Now().Add(d.patience)
	return d.use(ctx, d.writer, until, func(c *conn) error {
		steps := []func() error{
			func() error { return foreign(c, shared) }, // before anything is changed
			func() error { return walMode(c) },
			func() error { _, err := c.exec("BEGIN IMMEDIATE"); return err },
		}
		for _, step := range steps {
			if err := d.patient(ctx, until, step); err != nil {
				return err
			}
		}
		err := foreign(c, shared)
		if err == nil {
			err = migrate(c, schema())
		}
		var life journal.Life
		if err == nil {
			life, err = d.live(c)
		}
		if err == nil {
			// In a file that can't be written to, a transaction begins without an
			// error as one that reads.
			_, err = c.exec("UPDATE attend_meta SET value = value WHERE 0")
		}
		if err == nil {
			_, err = c.exec("COMMIT")
		}
		if err == nil {
			d.at.Note(life)
		}
		if err != nil && !c.c.AutoCommit() {
			c.exec("ROLLBACK") // as in update
		}
		return err
	})
}

// foreign is an error where the file is a database of something else.
func foreign(c *conn, shared bool) error {
	tables, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err != nil || shared || tables == 0 {
		return err
	}
	ours, err := c.number("SELECT count(*) FROM sqlite_schema WHERE name = 'attend_meta'")
	if err == nil && ours == 0 {
		err = fmt.Errorf("it is a database of something else: it has %d tables and indexes, and none of attend's", tables)
	}
	return err
}

// migrate takes the steps that the file has not had. It is in a transaction.
func migrate(c *conn, steps []string) error {
	ours, err := c.number("SELECT count(*) FROM sqlite_schema WHERE name = 'attend_meta'")
	if err != nil {
		return err
	}
	version := 0
	if ours > 0 {
		if version, err = versionOf(c); err != nil {
			return err
		}
	}
	if version > len(steps) {
		return newer(version, len(steps))
	}
	for _, step := range steps[version:] {
		if err := c.set(step); err != nil {
			return err
		}
	}
	if version == len(steps) {
		return nil
	}
	for _, name := range []string{metaEpoch, metaEvents} {
		if _, err := c.exec("INSERT OR IGNORE INTO attend_meta VALUES(?1, ?2)", name, rand.Text()); err != nil {
			return err
		}
	}
	_, err = c.exec("INSERT OR REPLACE INTO attend_meta VALUES(?1, ?2)", metaVersion, int64(len(steps)))
	return err
}

// live draws new epochs where the file is a copy: what readers know of its logs
// may be of rows that are not in it.
func (d *database) live(c *conn) (life journal.Life, err error) {
	row, err := c.row("SELECT value FROM attend_meta WHERE name = ?1", metaFile)
	if err != nil {
		return life, err
	}
	id := ""
	if row != nil {
		id, _ = row[0].(string)
	}
	if life, err = readLife(c); err != nil {
		return life, err
	}
	if !d.at.SameLife(id, life) {
		for _, name := range []string{metaEpoch, metaEvents} {
			if _, err := c.exec("UPDATE attend_meta SET value = ?1 WHERE name = ?2", rand.Text(), name); err != nil {
				return life, err
			}
		}
		if life, err = readLife(c); err != nil {
			return life, err
		}
	}
	if is := d.at.ID(); is != "" && is != id {
		_, err = c.exec("INSERT OR REPLACE INTO attend_meta VALUES(?1, ?2)", metaFile, is)
	}
	return life, err
}

func readLife(c *conn) (l journal.Life, err error) {
	m, err := readMarks(c)
	if err != nil {
		return l, err
	}
	e, err := readEventMarks(c)
	if err != nil {
		return l, err
	}
	l[0].Newest, l[1].Newest = m.Newest, e.newest
	for i, name := range []string{metaEpoch, metaEvents} {
		if l[i].Epoch, err = epoch(c, name); err != nil {
			return l, err
		}
	}
	return l, nil
}

func newer(version, known int) error {
	return fmt.Errorf("its tables have version %d, this release knows %d: %w", version, known, attend.ErrNewer)
}

func versionOf(c *conn) (int, error) {
	row, err := c.row("SELECT value FROM attend_meta WHERE name = ?1", metaVersion)
	if err == nil && row == nil {
		err = fmt.Errorf("its tables have no version: %w", attend.ErrCorrupt)
	}
	if err != nil {
		return 0, err
	}
	return int(integer(row[0])), nil
}

// check is an error once a newer release has changed the tables. It is the
// first thing that a transaction does.
func (d *database) check(c *conn) error {
	version, err := versionOf(c)
	if known := len(schema()); err == nil && version > known {
		err = newer(version, known)
	}
	return err
}

// epoch reads one of the epochs.
func epoch(c *conn, name string) (string, error) {
	row, err := c.row("SELECT value FROM attend_meta WHERE name = ?1", name)
	if err != nil {
		return "", err
	}
	if row != nil {
		if s, ok := row[0].(string); ok && s != "" {
			return s, nil
		}
	}
	return "", fmt.Errorf("its log has no epoch: %w", attend.ErrCorrupt)
}

// walMode makes the file keep a write-ahead log. The file remembers.
func walMode(c *conn) error {
	mode, err := c.row("PRAGMA journal_mode")
	if err != nil || mode[0] == "wal" {
		return err
	}
	if mode, err = c.row("PRAGMA journal_mode=WAL"); err == nil && mode[0] != "wal" {
		err = fmt.Errorf("it can't keep a write-ahead log, as on a network: its journal mode is %v", mode[0])
	}
	return err
}
