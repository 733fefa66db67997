package attend

// A Kind is the settle role of an event: what its arrival does to the open
// window. It is fixed once, when the event is taken in.
type Kind string

const (
	// KindClosing ends an act (submit, save, build finished): the window
	// settles ClosingGrace after the last of them, so that its output can join.
	KindClosing Kind = "closing"
	// KindFlush speaks to the agent: the window settles at once, and waiting is
	// not offered to the judge.
	KindFlush Kind = "flush"
	// KindContinuous is one step of an ongoing act (typing, dragging): the
	// window settles when none came for StreamGap.
	KindContinuous Kind = "continuous"
	// KindPassive is a dwell or a look: the window settles PassiveQuiet after
	// the last of them.
	KindPassive Kind = "passive"
	// KindConsequence is system output (a log line, a tool result): it never
	// settles a window, it joins the open one.
	KindConsequence Kind = "consequence"
	// KindContext is the agent's own output: it never settles a window, joins
	// it as context for the judge, and is left out of the notice.
	KindContext Kind = "context"
)

// Kinds lists the six kinds, acts first.
func Kinds() []Kind {
	return []Kind{KindClosing, KindFlush, KindContinuous, KindPassive, KindConsequence, KindContext}
}

// Act reports whether an event of this kind can call for the agent.
func (k Kind) Act() bool {
	switch k {
	case KindClosing, KindFlush, KindContinuous, KindPassive:
		return true
	default:
		return false
	}
}

// Valid reports whether k is one of the six kinds.
func (k Kind) Valid() bool { return k.Act() || k == KindConsequence || k == KindContext }

// A KindFunc says which kind an event has. It is called once for each event,
// when it is taken in, from many goroutines at once. Processes that share a
// store need the same function. An answer outside the six kinds refuses the
// event (rule E2).
type KindFunc func(Event) Kind
