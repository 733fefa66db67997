// Package attendtest has what tests of programs on attend need: a [Judge] that
// answers from a script, a [Sink] and [Letters] that record what they take and
// can fail, and a [CrashStore] that dies at a commit and can be opened again.
//
// Each is a struct that is used by its pointer. The zero value is ready, but
// for the CrashStore's Store; fields are set before the first call and not
// changed then, and methods may be called from many goroutines at once. Nothing
// reads a clock or sleeps, and no lock is held while something blocks, so all of
// it can be used in a testing/synctest bubble.
//
// Read judge.go first. copy.go is why a test can keep what it gets: everything
// recorded is a copy, and so is everything handed out.
package attendtest
