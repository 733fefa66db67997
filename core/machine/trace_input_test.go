package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// input makes the input that a line is about.
func (r *traceRun) input(l *traceLine) (in traceInput, err error) {
	if !l.timed {
		return in, fmt.Errorf("%s: no such thing, or one that wants a time", l.verb)
	}
	switch l.verb {
	case "configure":
		r.policy, err = l.policy(r.policy)
		in.Input = r.configure()
	case "push", "batch":
		a := Arrive{At: r.at}
		a.Writer, a.Number = r.writer(l)
		if l.verb == "batch" {
			a.Source, a.Gap = l.next(), l.flag("gap")
			a.After, a.Cursor = l.cursor("after"), l.cursor("cursor")
			a.Rejected = r.rejected(l)
		}
		a.Events = r.events(l)
		in = traceInput{a, a.Writer == 0}
	case "flush":
		f := Flush{At: r.at}
		f.Writer, f.Number = r.writer(l)
		in = traceInput{f, f.Writer == 0}
	case "end":
		f := End{At: r.at}
		f.Writer, f.Number = r.writer(l)
		in = traceInput{f, f.Writer == 0}
	case "tick":
		in.Input = Tick{At: r.at}
	case "forget":
		in.Input = Forget{At: r.at}
	case "claim":
		in.Input = r.claim(l)
	case "judged":
		c := r.claimed(l, LaneJudge)
		in.Input = Judged{At: r.at, Num: c.num, Attempt: c.attempt, Judgment: l.judgment()}
	case "failed":
		c := r.claimed(l, 0, LaneDecision, LaneLetter)
		f := Failed{At: r.at, Lane: c.lane, Num: c.num, Attempt: c.attempt}
		f.Permanent, f.Account = l.flag("permanent"), l.flag("account")
		f.RetryAfter = l.duration("retry-after", 0)
		f.Message = l.quoted(l.next())
		in.Input = f
	case "done":
		c := r.claimed(l, LaneDecision, LaneLetter)
		in.Input = Done{At: r.at, Lane: c.lane, Num: c.num}
	case "give-back":
		c := r.claimed(l, 0, LaneDecision, LaneLetter)
		in.Input = GiveBack{At: r.at, Lane: c.lane, Num: c.num, Attempt: c.attempt}
	default:
		err = fmt.Errorf("%s: no such thing", l.verb)
	}
	if err == nil {
		err = l.err
	}
	return in, err
}

// writer takes "by A" or "by A#3" and counts.
func (r *traceRun) writer(l *traceLine) (id, number uint64) {
	name, _ := l.after("by")
	if name == "nobody" {
		return 0, 0
	}
	name, count, given := strings.Cut(name, "#")
	if name == "" {
		name = "A"
	}
	number = r.numbers[name] + 1
	if given {
		n, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			l.fail(err.Error())
		}
		number = n
	}
	r.numbers[name] = max(r.numbers[name], number)
	return l.engine(name), number
}

// engine is the id of an engine that a trace calls A, and traceEngine its name.
func (l *traceLine) engine(name string) uint64 {
	if len(name) != 1 {
		l.fail("an engine is called by one letter")
		return 0
	}
	return uint64(name[0])
}

func traceEngine(id uint64) string { return string(rune(id)) }

// rejected takes each "reject b "why"".
func (r *traceRun) rejected(l *traceLine) []Rejected {
	var out []Rejected
	for l.err == nil {
		i := slices.Index(l.words, "reject")
		if i < 0 {
			break
		}
		if len(l.words) < i+3 {
			l.fail("reject wants an id and a reason")
			break
		}
		e := traceEvent(l.words[i+1])
		out = append(out, Rejected{Event: e, Message: l.quoted(l.words[i+2])})
		l.words = slices.Delete(l.words, i, i+3)
	}
	return out
}

// events takes all words that are left.
func (r *traceRun) events(l *traceLine) []attend.Event {
	var out []attend.Event
	for _, word := range l.words {
		word, slow, clock := strings.Cut(word, "@")
		parts := strings.Split(word, ":")
		if len(parts) < 2 || len(parts) > 3 {
			l.fail("an event is id:kind or id:kind:bytes, not " + word)
			continue
		}
		ids, err := traceRange(parts[0])
		if err != nil {
			l.fail(err.Error())
		}
		for _, id := range ids {
			e := traceEvent(id)
			e.Kind = attend.Kind(parts[1])
			if !e.Kind.Valid() {
				l.fail("no kind: " + parts[1])
			}
			if clock {
				d, err := traceDuration(slow)
				if err != nil {
					l.fail(err.Error())
				}
				e.At = r.at.Add(d)
			}
			if len(parts) == 3 {
				n, err := strconv.Atoi(parts[2])
				if err != nil || n < e.Size() {
					l.fail("not that small: " + parts[2])
					continue
				}
				e.Text = strings.Repeat("x", n-e.Size())
			}
			out = append(out, e)
		}
	}
	l.clear()
	return out
}

// claim takes "judge", "decision" or "letter", "by A" and "for 30s". It claims
// what State.Work names, or the first of its lane though it can't be claimed;
// "claim letter 2" claims the second.
func (r *traceRun) claim(l *traceLine) Input {
	name, ok := l.after("by")
	if !ok {
		name = "A"
	}
	word := l.next()
	lane, ok := traceLanes[word]
	if !ok {
		l.fail("no such lane: " + word)
	}
	in := Claim{At: r.at, Lane: lane, Owner: l.engine(name), Until: r.at.Add(l.duration("for", 30*time.Second))}
	w, jobs, place := r.state.Work(r.at), r.state.letters.jobs, 1
	switch lane {
	case LaneJudge:
		in.Num = w.Judge
		if s := r.state.slot; s != nil {
			in.Num = s.num
		}
		return in
	case LaneDecision:
		in.Num, jobs = w.Decision, r.state.decisions.jobs
	case LaneLetter:
		in.Num = w.Letter
	}
	if len(l.words) > 0 {
		n, err := strconv.Atoi(l.next())
		if err != nil || n < 1 {
			l.fail("want the place of an entry in its lane")
		}
		in.Num, place = 0, n
	}
	if in.Num == 0 && len(jobs) >= place {
		in.Num = jobs[place-1].num
	}
	return in
}

// claimed takes "of call 1", or else the last claim of these lanes.
func (r *traceRun) claimed(l *traceLine, lanes ...Lane) traceClaim {
	if i := slices.Index(l.words, "of"); i >= 0 {
		if len(l.words) < i+3 {
			l.fail("of wants a piece of work and its number")
			return traceClaim{}
		}
		work := l.words[i+1]
		n, err := strconv.Atoi(l.words[i+2])
		if err != nil {
			l.fail(err.Error())
		}
		l.words = slices.Delete(l.words, i, i+3)
		for _, c := range r.claims {
			if traceWork[c.lane] == work {
				if n--; n == 0 {
					return c
				}
			}
		}
		l.fail("there was no such " + work)
		return traceClaim{}
	}
	for _, c := range slices.Backward(r.claims) {
		if slices.Contains(lanes, c.lane) {
			return c
		}
	}
	l.fail("nothing was claimed")
	return traceClaim{}
}

// judgment takes a route and what comes with it.
func (l *traceLine) judgment() attend.Judgment {
	j := attend.Judgment{Route: attend.Route(l.next())}
	for _, word := range l.words {
		name, value, _ := strings.Cut(word, "=")
		p, err := strconv.ParseFloat(value, 64)
		if err != nil {
			l.fail("no probability: " + word)
		}
		switch question, asked := strings.CutPrefix(name, "?"); {
		case name == "confidence":
			j.Confidence = p
		case asked:
			if j.Predicates == nil {
				j.Predicates = make(map[string]float64)
			}
			j.Predicates[question] = p
		default:
			if j.Probabilities == nil {
				j.Probabilities = make(map[attend.Route]float64)
			}
			j.Probabilities[attend.Route(name)] = p
		}
	}
	l.clear()
	return j
}

// policy takes settings, named as in Policy but for the first letter, which is
// small.
func (l *traceLine) policy(p Policy) (Policy, error) {
	durations := []string{"closingGrace", "streamGap", "passiveQuiet", "waitHorizon", "maxWindow", "deadLetterBackoffMax", "accountGrace", "idleExpiry"}
	counts := []string{"maxWaits", "maxEvents", "maxWindowBytes", "recentCount", "seenCount", "maxOutbox", "maxDeadLetters", "maxBacklog", "maxLaneBytes"}
	for _, word := range l.words {
		name, value, _ := strings.Cut(word, "=")
		var err error
		if i := slices.Index(durations, name); i >= 0 {
			*p.durations()[i], err = traceDuration(value)
		} else if i := slices.Index(counts, name); i >= 0 {
			*p.counts()[i], err = strconv.Atoi(value)
		} else {
			switch name {
			case "actThreshold":
				p.ActThreshold, err = strconv.ParseFloat(value, 64)
			case "logDecisions":
				p.LogDecisions, err = strconv.ParseBool(value)
			case "logLetters":
				p.LogLetters, err = strconv.ParseBool(value)
			case "recordVerdicts":
				p.RecordVerdicts, err = strconv.ParseBool(value)
			case "retryBackoff":
				p.RetryBackoff = nil
				for _, rung := range strings.FieldsFunc(value, func(c rune) bool { return c == ',' }) {
					d, e := traceDuration(rung)
					p.RetryBackoff, err = append(p.RetryBackoff, d), e
				}
			default:
				err = fmt.Errorf("no such setting: %s", name)
			}
		}
		if err != nil {
			return p, err
		}
	}
	l.clear()
	return p, p.Check()
}
