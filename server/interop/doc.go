// Package interop runs a server of attend against clients that others wrote:
// curl, the official TypeScript SDK as a host, the CloudEvents SDK as a sender,
// Chromium's EventSource, and wrk for load. It has tests alone, and the scripts
// and pages that they drive.
//
// The versions of the packages are those of package.json and package-lock.json;
// npm ci installs them beside the user's caches, once for each lock file. The
// programs are the ones of the machine. What each of them did is told in
// docs/server-interop.md.
package interop
