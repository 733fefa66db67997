// Package server is attend over HTTP and MCP: events in, decisions out, and what
// is to be known about both. It serves an engine that it is handed, as an
// [net/http.Handler] or with a listener of its own. docs/http.md is the page for
// users.
//
// Here are the front, which every request passes (who asks, and from where),
// health, metrics, and the beginning and the end; read server.go first, then
// front.go. What the routes do is below: internal/ingest, internal/decisions,
// inspect and internal/mcpface; access says who may do what.
//
// Its dependencies: github.com/modelcontextprotocol/go-sdk for MCP,
// github.com/prometheus/client_golang for metrics in the form that everybody
// scrapes, github.com/klauspost/compress for zstd.
package server
