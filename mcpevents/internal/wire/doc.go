// Package wire carries what the SDK does not: calls that go on for a long time
// and the notifications that belong to them, beside the SDK's sessions, at both
// ends and over both kinds of transport. Nothing else in this module touches
// JSON-RPC messages.
//
// The server's files begin with server, the client's with client; the latter
// start at [Over].
package wire
