// Package bolt keeps attend's state in one bbolt file: no server, no cgo, and
// one process at a time. Scopes are in package journal's layout, so that a
// commit of many costs little more than a commit of one. What Commit and Append
// have answered is on the disk.
//
// [Store] is an [attend.ScopeStore] whose log is an [attend.Waiter] too, and
// [EventLog] is an [attend.EventLog] and an [attend.EventWaiter]. For both in
// one file, open it with go.etcd.io/bbolt and use [New] and [NewEventLog].
//
// The file grows as it needs to and does not shrink; a compacting copy does
// that, as bbolt's own command makes it. It needs about as much free room as
// one commit writes. It is not for network file systems, as bbolt's lock and
// its memory map are not.
//
// A copy is another life of its logs: its next rows are at positions that readers
// of the file may have read past. So when it is opened the logs get new epochs,
// and cursors of before are truncated. It is told by the file's number and time
// of birth, which stay in a rename and change in a copy or a move to another
// file system; and by a mark, a small file that ends in -mark and says how far
// the logs went, which tells an older copy that is written over the file. Put a
// copy in place while no process has the file open, and leave -mark alone. Not
// noticed are: a copy over the file when -mark was lost or put back too, or that
// was made in the last second before a crash; a snapshot of a whole disk that is
// put back; and, where the file system tells no time of birth, a new file that
// got the number of the old one. A file that is deleted or replaced while it is
// open makes calls answer [ErrReplaced]: those that write at once, those that
// read within 100 ms.
//
// Read store.go first, then backend.go and log.go, what package journal builds
// on; rows.go, index.go and trim.go, the rows of the decision log; eventlog.go
// and events.go. database.go has the file, transaction.go the transactions, and
// check.go looks at a file before bbolt does, which panics where it finds what it
// doesn't expect.
//
// It requires go.etcd.io/bbolt: the file, its transactions and its B+trees.
package bolt
