// Package vectors holds the files that pin what attend must never change by
// accident, for its own tests and for whoever reads or writes attend's forms in
// another language.
//
// Each folder of [FS] is one subject:
//
//	decisionid/*.txt  a scope, the identities of events, and the id made of them
//	settle/*.trace    what a scope does with its inputs, told as stories; core/machine/trace_test.go says how to read them
//	wire/*.json       one value of each JSON form, indented; the wire form is the same without space
//
// A line of a decisionid file is a word and its arguments. Every argument but
// the id is a JSON string. Lines that begin with # are for people.
//
//	scope  "a scope"
//	event  "its source's key" "its id"
//	id     the id of a decision on these events, in this order
//	intake the id of the dead letter of stage intake; only where there is one event
package vectors
