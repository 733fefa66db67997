// Package attend holds the words and the contracts of attend: what an event, a
// window, a verdict and a decision are, and what judges, sinks, sources and
// stores promise.
//
// attend decides when an event should wake an AI agent. The life of one event:
//
//  1. An app or a [Source] hands over an [Event] in a [Scope]. It gets a [Kind]
//     once, when it is taken in.
//  2. Events pile up in the scope's [Window] until it settles, with a [Reason].
//  3. A [Judge] is asked which [Route] the window takes.
//  4. A [Decision] is written to the [DecisionLog] in the same commit as the
//     state that made it, and only then handed to a [Sink].
//  5. What did not wake the agent is kept as a [Mark], so that every silence
//     can be explained.
//
// Who reads what: app authors start at package engine, which runs all this;
// store authors at [ScopeStore] and package memory, which is the contract in
// its shortest form; who wants to change a rule at package machine.
//
// Values of this package are plain data. Unless a comment says otherwise, a
// function keeps none of the slices and maps it is given, and the caller owns
// those it gets.
package attend
