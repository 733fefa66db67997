package attend

import "context"

// A Stage says who could not take what a dead letter holds.
type Stage string

const (
	StageIntake Stage = "intake" // no kind, or the event breaks a rule
	StageJudge  Stage = "judge"  // no judgment of its window
	StageSink   Stage = "sink"   // the sink did not take the decision
)

// A DeadLetter is a window, a decision or an event that nobody could take. It
// is kept until its handler takes it.
type DeadLetter struct {
	// ID is the same over retries and crashes, and no other scope has it: the
	// decision's id, or for stage intake that of [NewIntakeID]. A judge's and a
	// sink's letter share one only where the same events were pushed again
	// after they were forgotten.
	ID       DecisionID
	Stage    Stage
	Message  string    // the last error's text, cut at 1 KiB
	Attempts int       // failed ones; 0 for stage intake
	Window   Window    // for stage intake the one event, as far as it can be kept
	Decision *Decision // stage sink; else nil
}

// A LetterFunc takes dead letters. It is called like a [Sink]: for one scope
// one at a time, again after a crash, and again with backoff until it returns
// nil. A letter that it refuses does not hold back the others.
type LetterFunc func(ctx context.Context, l DeadLetter) error

// A LetterHandler is who takes dead letters: a [LetterFunc] or [LogLetters].
type LetterHandler interface {
	Letter(ctx context.Context, l DeadLetter) error
}

// Letter calls f.
func (f LetterFunc) Letter(ctx context.Context, l DeadLetter) error { return f(ctx, l) }

// LogLetters is the [LetterHandler] of an app that reads dead letters from the
// decision log: they are written as rows of type [RowLetter], and no lane is
// kept.
var LogLetters LetterHandler = logLetters{}

type logLetters struct{}

func (logLetters) Letter(context.Context, DeadLetter) error { return nil }
