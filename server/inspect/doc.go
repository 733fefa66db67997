// Package inspect tells what is in a scope, and the life of one event: from a
// scope's state and the rows of the decision log alone, so that a command can
// use it on a store and a server on an engine. Start at explain.go, which is a
// pure function; history.go reads what it needs, http.go serves both.
package inspect
