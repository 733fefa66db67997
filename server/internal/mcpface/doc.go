// Package mcpface is the server's face to agent hosts: an MCP server with the
// event attention.decision, in all three modes of delivery, and the tools
// attend_wait and attend_window. Start at face.go; events.go reads the decision
// log for the event, subscriptions.go keeps webhook subscriptions in the store.
//
// The protocol is package mcpevents; what is here is attend's part: who may read
// what, the payload, the tools.
package mcpface
