// Package mcpevents is the Events extension of the Model Context Protocol for
// Go, both ends of it: SEP-3415, io.modelcontextprotocol/events, in its three
// modes of delivery. It sits beside the official SDK
// (github.com/modelcontextprotocol/go-sdk), uses only what that one exports, and
// fills the gap that it leaves: notifications of a name of their own, on the
// stream of the request that asked for them.
//
// A server starts at [Server]: it offers types of events ([Type]), each with a
// [Backend] that can be read behind a cursor, and serves them over pipes
// ([Server.Transport]) and HTTP ([Server.Handler]). [Log] is a backend in memory.
//
// A client starts at [Connect], which makes a [Session]; one request each are
// [Session.List], [Session.Poll] and [Session.Stream]. [Session.Follow] keeps to
// one subscription on one session, in the mode that the server offers, and
// [Client.Follow] goes on over sessions that break. [Receiver] is the end of a
// webhook.
//
// Besides the SDK it needs github.com/google/jsonschema-go, which the SDK brings
// along, to check arguments and payloads, and github.com/gowebpki/jcs for the
// canonical form of arguments (RFC 8785).
package mcpevents
