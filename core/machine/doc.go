// Package machine is attend's rules as one pure function: [Step] takes a
// scope's [State] and an [Input] and returns the next state and its [Effects].
//
// It reads no clock, draws no random number, starts nothing and walks no map:
// the same inputs always give the same state, so a store can keep inputs and
// [Replay] them. Every input carries the time it happened. Package engine does
// what the effects ask for.
//
// Read step.go first, then arrive.go and settle.go: how an event joins the
// window, and when the window is due. judge.go and outbox.go follow a settled
// window until it is decided and delivered. The ids in the comments (E4) are
// those of the rules; core/vectors/settle tells each of them as a story, and
// model_test.go says all of them again in the slowest and plainest way.
package machine

// Rules is the version of the rules in this package. State and inputs carry
// the version that wrote them, and are replayed by it (E50): a change of what
// an input does raises it, and keeps the last one's function for replay.
const Rules = 1
