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
// Read store.go first, then backend.go, what package journal builds on; log.go
// and rows.go, the decision log, with index.go and keeper.go for what happens
// in the background; eventlog.go and events.go. database.go has the
// transactions, and check.go looks at a file before bbolt does, which panics
// where it finds what it doesn't expect.
//
// It requires go.etcd.io/bbolt: the file, its transactions and its B+trees.
package bolt
