// Package mcpsource makes one subscription of MCP Events a source of attend: an
// engine that attaches it takes in what an MCP server tells, and goes on after a
// restart where it stopped. It is for apps that run an engine. Begin with [New];
// source.go is the walk of a batch, from the server to the engine.
//
// The protocol is package mcpevents; here is only what attend adds to it: the
// cursor is committed with its events (C2), events are translated (C3), and what
// goes wrong is sorted into what ends the source and what does not (C5).
//
// Each event becomes an [attend.Event] with the server's id, name, time and data,
// and without a text: a notice shows name and data. Where an event can't be kept
// as it is, it is not lost:
//
//   - an id over 256 bytes, or with control characters, becomes "sha256:" and the
//     hash of it in hex;
//   - a time that can't be read, or lies outside the years 1 to 9999, is left out,
//     so that the engine sets the one at which it took the event in;
//   - data over 1 MiB with the rest of its event, or an event that no kind takes,
//     becomes a dead letter of the engine, of stage intake;
//   - what mcpevents drops, since it is malformed, unreadable or larger than the
//     limits of the session, is told to [Config.OnError], and the window's Gap is
//     set. One of another type, and a notification that is not understood, is told
//     alone: it was no event of the subscription.
//
// Besides core it needs mcpevents, and the SDK that this one sits on.
package mcpsource
