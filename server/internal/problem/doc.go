// Package problem writes errors over HTTP: application/problem+json (RFC 9457),
// and the one table that says which error has which status.
package problem
