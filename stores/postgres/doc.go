// Package postgres keeps scopes, decisions and events in PostgreSQL 13 or
// later, for as many processes as there are.
//
// [Migrate] makes the tables. It is run at deploy, by a role that can create
// them; a [Store] and an [EventLog] then need no more than SELECT, INSERT,
// UPDATE and DELETE on these tables, which Migrate grants to [Config.Role].
//
// A commit is one statement and one round trip; a large one is up to four at
// once, since a session of the server works on one processor. It locks what it
// touches in one order, so that processes wait for each other and never in a
// circle. It is durable when it is answered, also where the database has
// synchronous_commit off, as is Remove, and it needs no isolation level: where the database's
// default is a stricter one than READ COMMITTED and that got in the way, the
// statement brings its own.
//
// # Behind a pooler
//
// Nothing here depends on a session, so a pooler in transaction mode may stand
// between. Named prepared statements live in sessions, though: behind a pooler
// that does not carry them over (pgbouncer before 1.21, or without
// max_prepared_statements) add default_query_exec_mode=exec to the URL, or set
// it in the pool's ConnConfig. The server then parses and plans each statement
// anew, which small commits feel most. Notifications need a session as well:
// [Config.Listen] is a connection string that goes to the server itself.
//
// # Copies of a database
//
// A cursor holds for one life of a log. A dump that is restored is another one:
// readers are told that their cursor is truncated, and go on from the oldest
// row. A replica that takes over, or a base backup that is brought forward, is
// the same life; its positions jump ahead, so that none that was lost with the
// old server is given out again. pg_upgrade gives a server another identity, so it
// begins another life too.
//
// That needs pg_control_system, pg_walfile_name and pg_current_wal_lsn, which
// every role may call unless somebody revoked it. Where [Migrate] finds that they
// are revoked, the logs do without, for good, and only another database or table
// is another life. Where they are revoked later, run Migrate again and open the
// stores again.
//
// Three things are not noticed: rows that are put back into the same tables, a
// virtual machine that is set back to an earlier state, and two servers that
// were brought forward from one backup, whose positions differ by chance alone.
// Then begin another life by hand, before anything is written:
//
//	UPDATE attend_logs SET epoch = gen_random_uuid()
//
// # Settings of the server
//
// A client that vanishes without a word may leave its locks behind until the
// server notices: tcp_keepalives_idle and idle_in_transaction_session_timeout
// say how soon. Busy scopes are updated often: raise max_wal_size before
// anything else.
//
// Read store.go first, then statement.go, which is what a commit is. The tables
// are in schema.go; due.go says how a due time is found without an index that
// changes with each write; rows.go and log.go are the decision log, hub.go and
// listen.go how a reader waits, append.go and batches.go the event log.
//
// The package requires github.com/jackc/pgx/v5, the driver.
package postgres
