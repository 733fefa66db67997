package attend

// A Route is what the agent should do about a window.
type Route string

const (
	RouteInterrupt Route = "interrupt" // the agent hears it now, even mid-turn
	RouteQueue     Route = "queue"     // it hears it when its turn ends
	RouteNote      Route = "note"      // it gets it as context for its next turn, and does not answer it
	RouteAsk       Route = "ask"       // it stays quiet; the app offers the user a prompt to call it in
	RouteSkip      Route = "skip"      // it hears nothing; the verdict is remembered
	RouteWait      Route = "wait"      // it hears nothing yet: the window is held and judged again
)

// AllRoutes lists the six routes in the order in which they are offered.
func AllRoutes() []Route {
	return []Route{RouteInterrupt, RouteQueue, RouteNote, RouteAsk, RouteSkip, RouteWait}
}

// Delivered reports whether a verdict with this route leaves attend as a
// decision.
func (r Route) Delivered() bool {
	switch r {
	case RouteInterrupt, RouteQueue, RouteNote, RouteAsk:
		return true
	default:
		return false
	}
}

// Valid reports whether r is one of the six routes.
func (r Route) Valid() bool { return r.Delivered() || r == RouteSkip || r == RouteWait }

// DefaultCriteria returns for each route the sentence that tells a judge when
// to take it, in a map of the caller's own.
func DefaultCriteria() map[Route]string {
	return map[Route]string{
		RouteInterrupt: "The agent must know this now: somebody asks it for something, or going on without it would do harm or waste its work.",
		RouteQueue:     "The agent should act on this, and it can wait until its present turn has ended.",
		RouteNote:      "The agent should know this the next time it works, and there is nothing to do about it.",
		RouteAsk:       "The agent could help with this, but a person should decide whether it is called in.",
		RouteSkip:      "The agent does not need this, neither now nor later.",
		RouteWait:      "It is too early to tell: what is happening here is not complete, and more is likely to follow soon.",
	}
}
