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
// A copy is another life of its logs: its next rows are at positions that readers
// of the file may have read past. So when it is opened the logs get new epochs,
// and cursors of before are truncated. It is told by the file's number and time
// of birth, which stay in a rename and change in a copy or a move to another
// file system; and by a mark, a small file that ends in -mark and says how far
// the logs went, which tells an older copy that is written over the file. Put a
// copy in place while no process has the file open, and delete the old -wal and
// -shm, but not -mark. Not noticed are: a copy over the file when -mark was lost
// or put back too, or that was made in the last second before a crash; a
// snapshot of a whole disk that is put back; where the file system tells no time
// of birth, a new file that got the number of the old one; and, until a handle
// is opened, a copy that was written over an open file.
// A file that is deleted or replaced while it is open makes calls answer
// [ErrReplaced]: those that write at once, those that read within 100 ms.
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
// database.go, how the file is shared; schema.go, the tables; backend.go and
// log.go, what package journal keeps in them; rows.go and index.go, the rows of
// the decision log.
package sqlite
