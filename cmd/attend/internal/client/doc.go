// Package client asks an attend server over HTTP, for the commands that work with
// one.
package client
