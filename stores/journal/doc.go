// Package journal is what attend's embedded stores share, whatever database
// they are on. It is for authors of stores; an app uses one of those. It has two
// themes, which know nothing of each other.
//
// A [Journal] keeps scopes as a journal of commits in front of their folded
// states. A commit of many scopes writes one record, so it costs one write in
// sequence and not a page for each scope. What is in records alone is in memory
// too, as an overlay over the folded states. When that is more than a budget,
// commits fold a few scopes each, those that have waited longest and some that
// lie beside them, and drop some of the records that nobody needs any more. Read
// backend.go first: what a database has to offer. Then journal.go for Load, and
// commit.go; overlay.go is what is in memory, catchup.go how it comes to know
// what other processes wrote, fold.go when and how a scope is folded. record.go
// and state.go say what the bytes are.
//
// A [Log] is the decision log over rows that a database keeps with an index:
// read logbackend.go first, then log.go; trim.go and keep.go are retention, and
// key.go says what the index has. An event log keeps its rows the same way, and
// has its own means: a [Line] of appends that share a transaction, and the
// functions of events.go. [Waiters] are for both. A [File] tells a database's file
// from a copy of it.
package journal
