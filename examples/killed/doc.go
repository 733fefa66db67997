// Package killed has tests and nothing else: the process of an engine that follows
// an MCP server into a store on disk is killed again and again, and each event is in
// one decision at the end. They show C2 of mcpsource, and are not there since it
// would require a store for them.
package killed
