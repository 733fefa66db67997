package main

import (
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/machine"
)

// settings makes a flag of each engine setting that decides. Their names are
// those of the options, and their defaults the engine's own. What is out of range
// never reaches c.
func settings(f *flags, c *engine.Config) {
	d := machine.DefaultPolicy()

	f.duration(&c.Settle.ClosingGrace, "closing-grace", d.ClosingGrace, "settle this long after the last closing event")
	f.duration(&c.Settle.StreamGap, "stream-gap", d.StreamGap, "settle this long after the last continuous event")
	f.duration(&c.Settle.PassiveQuiet, "passive-quiet", d.PassiveQuiet, "settle this long after the last passive event")
	f.duration(&c.Settle.MaxWindow, "max-window", d.MaxWindow, "settle when the first act is this old")
	f.count(&c.Settle.MaxEvents, "max-events", d.MaxEvents, false, "most events in a window")
	f.count(&c.Settle.MaxWindowBytes, "max-window-bytes", d.MaxWindowBytes, false, "most bytes in a window")
	f.duration(&c.Settle.WaitHorizon, "wait-horizon", d.WaitHorizon, "judge a held window again after this")
	f.count(&c.Settle.MaxWaits, "max-waits", d.MaxWaits, true, "most times that a window is held")

	f.number(&c.ActThreshold, "act-threshold", "off", "a number above 0 and up to 1, or off",
		"interrupt or ask exactly when their probabilities reach this",
		func(n float64) bool { return n > 0 && n <= 1 })
	f.backoff(&c.RetryBackoff, "retry-backoff", d.RetryBackoff, "pauses after failed attempts, or none")
	f.duration(&c.AccountGrace, "account-grace", d.AccountGrace, "keep a window this long while the judge's account fails")
	f.count(&c.RecentCount, "recent-count", d.RecentCount, true, "verdicts that a judge is told")
	f.count(&c.SeenCount, "seen-count", d.SeenCount, true, "acts, and other events, whose ids are remembered")
	f.count(&c.MaxBacklog, "max-backlog", d.MaxBacklog, false, "most acts that wait for a judge")
	f.count(&c.MaxOutbox, "max-outbox", d.MaxOutbox, false, "most decisions that wait for the sink")
	f.count(&c.MaxDeadLetters, "max-dead-letters", d.MaxDeadLetters, false, "most dead letters that wait for their handler")
	f.duration(&c.DeadLetterBackoffMax, "dead-letter-backoff-max", d.DeadLetterBackoffMax, "longest pause before a dead letter is tried again")
	f.duration(&c.IdleExpiry, "idle-expiry", d.IdleExpiry, "forget a scope that was idle for this long")
}
