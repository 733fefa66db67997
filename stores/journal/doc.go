// Package journal is what attend's embedded stores share: scopes kept as a
// journal of commits in front of their folded states.
//
// A commit of many scopes writes one record, so it costs one write in sequence
// and not a page for each scope. What is in records alone is in memory too, as
// an overlay over the folded states. With each commit a few scopes are folded,
// those that have waited longest, and records that nobody needs any more are
// dropped. It is for authors of stores; an app uses one of those.
//
// Read backend.go first: what a database has to offer. Then journal.go for
// Load, and commit.go; overlay.go is what is in memory, catchup.go how it comes
// to know what other processes wrote, fold.go when and how a scope is folded.
// record.go and state.go say what the bytes are.
package journal
