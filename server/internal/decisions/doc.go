// Package decisions reads the decision log for those who subscribe: a [Feed] is
// pages by cursor and one wait for all subscribers of the process. GET
// /v1/decisions, MCP and the tools read through it. Start at feed.go.
package decisions
