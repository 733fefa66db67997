// Package ingest takes events in over HTTP: bodies of many lines, JSON,
// CloudEvents, and a stream that stays open both ways.
//
// Read bodies.go and stream.go first, they are the two handlers. lines.go and
// array.go cut a body into items of bounded length; line.go and cloudevent.go
// read one; group.go gathers what is read into pushes, and commits them.
// tally.go is the answer. docs/http-errors.md says what each kind of bad input
// gets, and a test reads that page.
package ingest
