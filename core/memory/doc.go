// Package memory keeps scopes, decisions and events in the memory of one
// process. It is for tests, demos, and apps that may lose their state.
//
// It is also the contract of package attend in its shortest form, written to be
// read by whoever writes a store. Read memory.go first: what a scope is, and
// how a write lands. Then due.go, an index ordered by due time; log.go and
// rows.go, the decision log; eventlog.go, the log in front of attend. One
// mutex guards all of a store's data. It is held for one call, or for one page
// of an iterator, and never while something is yielded.
//
// [Store] is an [attend.ScopeStore] whose log is an [attend.Waiter] too, and
// [EventLog] is an [attend.EventLog] and an [attend.EventWaiter].
package memory
