package postgres

import (
	"fmt"

	attend "github.com/attend-go/attend/core"
)

// schema is the tables, as the steps that made them: the stored version is how
// many of them there were. A step that was released is never changed, and a new
// one leaves a running process of the release before it able to work.
//
// Names are compared byte by byte. What is long is not compressed, since it is
// short-lived or compressed poorly, and the attempt costs more than the write.
func schema() []string {
	return []string{`
-- The latest state of each scope. due is when it wants to be looked at; look is
-- a lower bound of it, and what the index holds (see due.go). The row is written
-- at each commit, so it has nothing that an index needs but look.
CREATE TABLE {scopes} (
	scope   text COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL,
	due     bigint, -- in Unix milliseconds, as all times; NULL: never
	look    bigint,
	snapped bigint, -- the version that its snapshot was written with
	tail    bytea NOT NULL -- the inputs since then, each behind its length
) WITH (fillfactor = 70, toast_tuple_target = 4080,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE {scopes} ALTER tail SET STORAGE EXTERNAL;
CREATE INDEX {scopes_look} ON {scopes} (look, scope) WHERE look IS NOT NULL;

-- Snapshots, apart, so that a commit of one input does not write them again.
CREATE TABLE {snapshots} (
	scope    text COLLATE "C" PRIMARY KEY,
	version  bigint NOT NULL,
	snapshot bytea NOT NULL
) WITH (fillfactor = 50, toast_tuple_target = 4080,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE {snapshots} ALTER snapshot SET STORAGE EXTERNAL;

-- The decision log. k1 to k4 are the lists that a row is in (see lists.go).
CREATE TABLE {rows} (
	seq   bigint GENERATED ALWAYS AS IDENTITY,
	base  bigint NOT NULL,
	pos   bigint GENERATED ALWAYS AS (base + seq) STORED,
	type  text COLLATE "C" NOT NULL,
	scope text COLLATE "C" NOT NULL,
	id    text COLLATE "C" NOT NULL,
	at    bigint NOT NULL,
	k1 bigint, k2 bigint, k3 bigint, k4 bigint,
	body  bytea NOT NULL,
	PRIMARY KEY (type, pos) INCLUDE (at)
);
ALTER TABLE {rows} ALTER body SET STORAGE EXTERNAL;
CREATE INDEX {rows_id} ON {rows} (id, type, pos);
CREATE INDEX {rows_k1} ON {rows} (k1, pos) WHERE k1 IS NOT NULL;
CREATE INDEX {rows_k2} ON {rows} (k2, pos) WHERE k2 IS NOT NULL;
CREATE INDEX {rows_k3} ON {rows} (k3, pos) WHERE k3 IS NOT NULL;
CREATE INDEX {rows_k4} ON {rows} (k4, pos) WHERE k4 IS NOT NULL;

-- The event log. streams holds up to where a scope's events were trimmed.
CREATE TABLE {events} (
	seq   bigint GENERATED ALWAYS AS IDENTITY,
	base  bigint NOT NULL,
	pos   bigint GENERATED ALWAYS AS (base + seq) STORED PRIMARY KEY,
	scope text COLLATE "C" NOT NULL,
	id    text COLLATE "C" NOT NULL,
	taken bigint NOT NULL,
	body  bytea NOT NULL
);
ALTER TABLE {events} ALTER body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX {events_id} ON {events} (scope, id);
CREATE INDEX {events_scope} ON {events} (scope, pos);
CREATE TABLE {streams} (
	scope   text COLLATE "C" PRIMARY KEY,
	trimmed bigint NOT NULL
);

-- What is said of each of the two logs. bound: the server's own identity is
-- part of the epoch.
CREATE TABLE {logs} (
	name             text PRIMARY KEY,
	epoch            text NOT NULL,
	bound            boolean NOT NULL,
	trimmed          bigint NOT NULL DEFAULT 0,
	trimmed_verdicts bigint NOT NULL DEFAULT 0
);

-- Rows that are locked by whoever has a turn: to append to a log, or to trim
-- it. base is added to what the sequence gives, and jumps when lineage changes.
CREATE TABLE {turns} (
	name    text PRIMARY KEY,
	base    bigint NOT NULL DEFAULT 0,
	lineage text
);
INSERT INTO {turns} (name) VALUES ('decisions'), ('events'), ('trim'), ('trim-events');`,
	}
}

// tables are the names of all of them.
func tables() []string {
	return []string{"{scopes}", "{snapshots}", "{rows}", "{events}", "{streams}", "{logs}", "{turns}", "{schema}"}
}

// lineage names a server and how often a replica took over from it. Positions
// that were given out and then lost, with a server or by going back to a
// backup, were given out by another lineage.
const lineage = `(SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// lineageFunctions are what it calls.
const lineageFunctions = `'pg_control_system', 'pg_walfile_name', 'pg_current_wal_lsn'`

// epoch is the stored one, and what makes a copy of the tables another log: the
// server, the database and the table that it is read from. The server checks the
// right to call a function when a statement begins, also where CASE goes another
// way, so logs that are not bound have a text without it.
func (d *db) epoch() string {
	server := ""
	if d.bound {
		server = `,
	CASE WHEN l.bound THEN (SELECT c.system_identifier FROM pg_control_system() c)::text END`
	}
	return `l.epoch || '-' || left(encode(sha256(concat_ws('/', l.tableoid::text,
	(SELECT d.oid FROM pg_database d WHERE d.datname = current_database())::text` + server + `)::bytea), 'hex'), 16)`
}

// base is what is added to a sequence; NULL where positions must jump first.
func (d *db) base() string {
	if !d.bound {
		return `t.base`
	}
	return `CASE WHEN t.lineage IS NULL OR t.lineage = ` + lineage + ` THEN t.base END`
}

// noRow is the error where a row is missing that Migrate wrote.
func (c Config) noRow(table, name string) error {
	return fmt.Errorf("the table %s has no row %q: %w", c.named(table), name, attend.ErrCorrupt)
}
