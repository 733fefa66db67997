// Package demo tells the story of attend demo: a CI server that streams MCP
// events over HTTP on loopback, a source that follows it, and an engine that
// decides. All of it is real but the story and its judge.
package demo
