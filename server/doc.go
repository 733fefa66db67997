// Package server is attend over HTTP and MCP: events in, decisions out, and what
// is to be known about both. It serves an engine that it is handed.
package server
