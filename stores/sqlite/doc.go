// Package sqlite keeps scopes, decisions and events in a SQLite file: durable,
// for one host, by one process or several. It is for apps that want attend to
// survive a restart, or a power cut, without a server beside them.
//
// What a call has answered is on the disk: commits are synced, always. The file
// keeps a write-ahead log, which lies beside it with the names -wal and -shm and
// belongs to it. That log needs shared memory, so the file must not be on a
// network file system. A copy of a file in use is made with SQLite's own means,
// such as VACUUM INTO; opening and closing it otherwise in a process that has a
// [Store] on it makes the system forget SQLite's locks.
//
// SQLite lets one writer in at a time, among all processes. Waiting for one's
// turn is done here and ends with a call's context, or after [Config.Patience]:
// no caller sees SQLITE_BUSY. Readers and writers do not hold each other up.
// The file does not shrink; what retention frees is used again.
//
// [Store] is an [attend.ScopeStore] whose log is an [attend.Waiter], and
// [EventLog] is an [attend.EventLog] and an [attend.EventWaiter]. Commits of
// other processes are noticed within some ten milliseconds.
//
// This package requires github.com/mattn/go-sqlite3, the driver that brings
// SQLite itself along; it needs cgo and a C compiler. Read store.go first, then
// database.go, how the file is shared; schema.go, the tables; backend.go, what
// package journal keeps in them; rows.go and index.go, the decision log.
package sqlite
