// Package interop runs mcpevents against code that others wrote: the official
// TypeScript SDK as client and as server, the packages of the npm registry that
// speak Events, and the reference library of Standard Webhooks. It has tests
// alone, and the scripts that they drive.
//
// The versions are those of package.json and package-lock.json; npm ci installs
// them beside the user's caches, once for each lock file. What each of them did
// is told in docs/mcp-events-interop.md.
package interop
