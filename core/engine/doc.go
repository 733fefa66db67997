// Package engine runs attend: it takes events in, commits what package machine
// decides, asks the judge, delivers decisions, and wakes up when a window is
// due.
//
// Start at [Config] and [New]. [Engine.Push] takes events in and returns once
// they are committed; [Engine.Run] settles, judges and delivers until its
// context ends. Several engines, in one process or many, share the work of one
// store.
//
// How the files hang together: push.go and attach.go are the ways in. They make
// operations (op.go), which cell.go applies to a scope's state, one write at a
// time. apply.go turns inputs into a write, and commit.go commits the writes of many
// scopes as one group; nothing else calls Commit. recover.go finds out what
// became of a write whose answer was a conflict or an error. run.go, alarm.go
// and sweep.go wake scopes that are due; work.go, judge.go and deliver.go do
// what a commit claimed. drive.go runs the same commits on given times, without
// a clock, for replays and for suites.
package engine
