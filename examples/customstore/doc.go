// Package customstore keeps attend's state as a folder of JSON files, one for
// each commit. It shows what a store by somebody else looks like, and passes
// the conformance suites.
//
// A folder belongs to one process, and what it holds is in that process's
// memory too. What Commit has answered is on disk. Each Open leaves one file.
package customstore
