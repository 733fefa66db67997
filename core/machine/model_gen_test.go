package machine

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// modelBytes turns bytes into choices: the same bytes make the same choices.
// Once they are used up every choice is the first.
type modelBytes struct{ b []byte }

func (m *modelBytes) more() bool { return len(m.b) > 0 }

// n is a choice from 0 to k-1; k is at most 256.
func (m *modelBytes) n(k int) int {
	if len(m.b) == 0 {
		return 0
	}
	c := int(m.b[0])
	m.b = m.b[1:]
	return c % k
}

func modelPick[T any](m *modelBytes, list ...T) T { return list[m.n(len(list))] }

// modelGen makes sessions: inputs that fit the state well enough to get far,
// and miss it often enough to try every "no". With hostile set it also makes
// what no engine would send.
type modelGen struct {
	modelBytes
	hostile bool
	mood    modelMood
	clock   int64 // of the engines, in milliseconds
	events  int   // ids given out
	number  [4]uint64
	kinds   map[string]attend.Kind
	nums    []uint64 // numbers of work and attempts that there were
	sent    []Input
}

// modelMood is what a session is mostly about.
type modelMood int

const (
	modelAny     modelMood = iota
	modelLetters           // much is given up, and the handler fails
	modelQuiet             // few acts: what is held has none
)

const modelStart = 100_000_000 // when sessions start, in milliseconds

func newModelGen(b []byte) *modelGen {
	g := &modelGen{modelBytes: modelBytes{b}, clock: modelStart, kinds: map[string]attend.Kind{}}
	g.mood = modelPick(&g.modelBytes, modelAny, modelAny, modelLetters, modelQuiet)
	return g
}

// next is the session's next input, in state s.
func (g *modelGen) next(s State) Input {
	if s.slot != nil {
		g.nums = append(g.nums, s.slot.num, s.slot.lease.attempt)
	}
	for _, l := range [...]lane{s.decisions, s.letters} {
		if len(l.jobs) > 0 {
			g.nums = append(g.nums, l.jobs[0].num, l.jobs[0].lease.attempt)
		}
	}
	in := g.input(s)
	g.sent = append(g.sent, in)
	return in
}

func (g *modelGen) input(s State) Input {
	if s.scope == "" && g.n(8) < 7 {
		return g.configure(s)
	}
	k := g.n(40)
	if g.mood == modelLetters && len(s.letters.jobs) > 1 && g.n(2) == 1 {
		return g.work(s, LaneLetter, s.letters.jobs[max(0, s.letters.next(ms(g.clock)))].lease)
	}
	switch {
	case s.slot != nil && k < 14: // a session should not stand before its judge
		return g.work(s, LaneJudge, s.slot.lease)
	case len(s.letters.jobs) > 0 && k >= 14 && k < 20:
		return g.work(s, LaneLetter, s.letters.jobs[max(0, s.letters.next(ms(g.clock)))].lease)
	case len(s.decisions.jobs) > 0 && k >= 20 && k < 23:
		return g.work(s, LaneDecision, s.decisions.jobs[0].lease)
	case s.slot == nil && s.open.acts.n == 0 && s.open.judgeable() && (k < 6 || g.mood == modelQuiet && k < 16):
		k = 36 // so that a window without an act is judged too
	}
	switch {
	case k < 23:
		return g.arrive(s)
	case k < 27:
		return g.batch(s)
	case k < 29:
		return Tick{g.at(s)}
	case k < 31:
		return g.work(s, modelPick(&g.modelBytes, LaneJudge, LaneDecision, LaneLetter), lease{})
	case k == 31 && g.hostile:
		return GiveBack{At: g.at(s), Lane: Lane(g.n(256)), Num: uint64(g.n(4)), Attempt: uint64(g.n(4))}
	case k < 33:
		return g.configure(s)
	case k == 33:
		return Forget{g.at(s)}
	case k == 34:
		at := g.at(s)
		w, n := g.writer()
		return Flush{at, w, n}
	case k < 37:
		at := g.at(s)
		w, n := g.writer()
		return End{at, w, n}
	case len(g.sent) > 0:
		return g.sent[len(g.sent)-1-g.n(min(len(g.sent), 8))]
	}
	return Tick{g.at(s)}
}

// work is the next thing that may happen to a piece of work.
func (g *modelGen) work(s State, l Lane, now lease) Input {
	switch k := g.n(10); {
	case k == 0:
		return GiveBack{At: g.at(s), Lane: l, Num: g.num(s, l), Attempt: g.attempt(s, l)}
	case k == 1, now.until == 0 && k < 6:
		if due := int64(now.due()); due > g.clock && due < g.clock+200_000 && k%2 == 1 {
			g.clock = due - int64(g.n(6)/5)
		}
		return g.claim(s, l)
	case k < 4, l == LaneLetter && k < 8:
		return g.failed(s, l)
	case l == LaneJudge:
		return g.judged(s)
	}
	return Done{At: g.at(s), Lane: l, Num: g.num(s, l)}
}

// at is the time of the next input: deadlines are hit exactly, just before and
// just after, and clocks stand still and go back.
func (g *modelGen) at(s State) time.Time {
	if g.hostile && g.n(12) == 0 {
		return modelPick(&g.modelBytes, time.Time{}, time.UnixMilli(0), time.UnixMilli(-5), time.UnixMilli(1),
			time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64), time.UnixMilli(int64(farthest)), time.UnixMicro(g.clock*1000+999))
	}
	due := int64(s.due())
	switch g.n(16) {
	case 0, 1, 2, 3:
	case 4:
		g.clock++
	case 5:
		g.clock += 100
	case 6, 7:
		g.clock = max(g.clock, due)
	case 8:
		g.clock = max(g.clock, due-1)
	case 9:
		g.clock = max(g.clock, due+1)
	case 10:
		g.clock += 500
	case 11:
		g.clock += 1000
	case 12:
		g.clock += 4000
	case 13:
		g.clock += 60_000
	case 14:
		if s.policy != nil && s.open.rest.n > 0 { // on the edge of going stale
			g.clock = max(g.clock, int64(s.open.rest.first().taken.add(s.policy.MaxWindow))+int64(g.n(2)))
		}
	case 15:
		return time.UnixMilli(g.clock - modelPick[int64](&g.modelBytes, 1, 500, 3_600_000))
	}
	return time.UnixMilli(g.clock)
}

func (g *modelGen) configure(s State) Configure {
	in := Configure{At: g.at(s), Scope: "s", Policy: g.policy()}
	for i := range in.Seed {
		in.Seed[i] = byte(i*37 + g.events)
	}
	in.Seed[16], in.Seed[17] = byte(len(g.sent)), byte(len(g.sent)>>8) // each life's numbers are its own
	if g.hostile {
		switch g.n(12) {
		case 0:
			in.Policy = nil
		case 1:
			in.Scope = modelPick[attend.Scope](&g.modelBytes, "", "\x00", "s\xff", attend.Scope(strings.Repeat("s", 600)))
		case 2:
			*in.Policy.durations()[g.n(8)] = modelPick[time.Duration](&g.modelBytes, -1, 1, math.MaxInt64, math.MinInt64, maxDuration)
		case 3:
			*in.Policy.counts()[g.n(9)] = modelPick(&g.modelBytes, -1, 0, 1<<30, math.MaxInt, math.MinInt)
		case 4:
			in.Policy.ActThreshold = modelPick(&g.modelBytes, math.NaN(), -1, 2, math.Inf(1), 1e-300)
		case 5:
			in.Policy.RetryBackoff = make([]time.Duration, 33)
		case 6:
			in.Policy = new(Policy)
		case 7:
			in.Seed = Seed{}
		}
	}
	return in
}

// policy is settings small enough that a short session meets their limits.
func (g *modelGen) policy() *Policy {
	const ms = time.Millisecond
	b := &g.modelBytes
	return &Policy{
		ClosingGrace: modelPick(b, 500*ms, 500*ms, 0, ms, 5000*ms),
		StreamGap:    modelPick(b, 1000*ms, 1000*ms, 0, 500*ms),
		PassiveQuiet: modelPick(b, 4000*ms, 1000*ms, 0),
		WaitHorizon:  modelPick(b, 10_000*ms, 1000*ms, 0, 120_000*ms),
		MaxWindow:    modelPick(b, 60_000*ms, 60_000*ms, 1000*ms, 0),

		MaxWaits:       modelPick(b, 2, 2, 1, 0, 5),
		MaxEvents:      modelPick(b, 3, 2, 4, 1, 250, 20, 40, 5),
		MaxWindowBytes: modelPick(b, 4<<20, 4<<20, 4<<20, 4<<20, 4<<20, 4<<20, 300, 450, 130, 1),
		RecentCount:    modelPick(b, 8, 2, 1, 0),
		SeenCount:      modelPick(b, 500, 4, 3, 2, 1, 0, 40),

		ActThreshold: modelPick(b, 0, 0, 0, 0, 0.5, 0.8, 1),
		RetryBackoff: modelPick(b, []time.Duration{1000 * ms, 4000 * ms, 16_000 * ms}, nil, nil, []time.Duration{0}, []time.Duration{1000 * ms}, []time.Duration{90_000 * ms}),

		MaxOutbox:      modelPick(b, 1000, 3, 1),
		MaxDeadLetters: modelPick(b, 1000, 2, 1),
		MaxBacklog:     modelPick(b, 10_000, 3, 1),
		MaxLaneBytes:   modelPick(b, 16<<20, 16<<20, 400, 1),

		DeadLetterBackoffMax: modelPick(b, 60_000*ms, 2000*ms, 0),
		AccountGrace:         modelPick(b, 3_600_000*ms, 5000*ms, 0),
		IdleExpiry:           modelPick(b, 30*24*time.Hour, 30*24*time.Hour, 0, 60_000*ms, 1000*ms, ms),

		LogDecisions:   g.n(8) == 7,
		LogLetters:     g.n(8) == 7,
		RecordVerdicts: g.n(8) != 7,
	}
}

func (g *modelGen) writer() (id, number uint64) {
	id = modelPick[uint64](&g.modelBytes, 0, 1, 2, 3)
	if id == 0 {
		return 0, 0
	}
	switch g.n(8) {
	case 0: // one that has landed
	case 1:
		if g.number[id] > 0 {
			return id, g.number[id] - 1
		}
	default:
		g.number[id]++
	}
	if g.hostile && g.n(16) == 0 {
		return uint64(g.n(256)) << 56, modelPick[uint64](&g.modelBytes, 0, 1, math.MaxUint64)
	}
	if g.n(24) == 0 { // so many engines that the first are forgotten
		return 100 + uint64(g.n(40)), 1
	}
	return id, g.number[id]
}

func (g *modelGen) arrive(s State) Arrive {
	in := Arrive{At: g.at(s)}
	in.Writer, in.Number = g.writer()
	for range 1 + modelPick(&g.modelBytes, 0, 0, 0, 1, 2, 5) {
		in.Events = append(in.Events, g.event())
	}
	if g.n(40) == 1 { // a flood, longer than a block of ids and a chunk of entries
		kind := modelPick(&g.modelBytes, attend.KindConsequence, attend.KindContinuous, attend.KindContext)
		for range 20 + g.n(50) {
			e := attend.Event{ID: fmt.Sprint("e", g.events), Name: "flood", Kind: kind}
			g.events++
			g.kinds[e.ID] = kind
			in.Events = append(in.Events, e)
		}
	}
	return in
}

func (g *modelGen) event() attend.Event {
	n := g.events
	if g.n(4) == 0 {
		n = max(0, n-1-modelPick(&g.modelBytes, g.n(12), g.n(12), g.n(100))) // a repeat
	} else {
		g.events++
	}
	e := attend.Event{ID: fmt.Sprint("e", n), Name: "n"}
	if k, ok := g.kinds[e.ID]; ok && g.n(8) > 0 {
		e.Kind = k
	} else {
		e.Kind = modelPick(&g.modelBytes, attend.KindClosing, attend.KindConsequence, attend.KindContext, attend.KindClosing,
			attend.KindContinuous, attend.KindPassive, attend.KindConsequence, attend.KindClosing, attend.KindContext,
			attend.KindFlush, attend.KindConsequence)
		if g.mood == modelQuiet && g.n(6) > 0 {
			e.Kind = modelPick(&g.modelBytes, attend.KindConsequence, attend.KindContext)
		}
		g.kinds[e.ID] = e.Kind
	}
	switch g.n(8) {
	case 0:
		e.Data = json.RawMessage(`"` + strings.Repeat("x", 20+2*g.n(200)) + `"`)
	case 1:
		e.Text, e.At = "text", time.UnixMilli(g.clock-7)
	}
	if g.hostile {
		switch g.n(24) {
		case 0:
			e.Kind = "bogus"
		case 1:
			e.Kind = ""
		case 2:
			e.ID = ""
		case 3:
			e.Data = json.RawMessage(`{"a":`)
		case 4:
			e.Text, e.Name = "a\x00\xff", "\xff"
		case 5:
			e.At = modelPick(&g.modelBytes, time.UnixMilli(0), time.UnixMilli(-1), time.Unix(1<<40, 0), time.UnixMicro(1))
		case 6:
			e.Source = "spoof"
		}
	}
	return e
}

// batch is what a source brings: at the right cursor, a wrong one, one that
// has landed, or none.
func (g *modelGen) batch(s State) Arrive {
	in := g.arrive(s)
	in.Source = modelPick(&g.modelBytes, "a", "b")
	in.After = s.Cursor(in.Source)
	in.Cursor = attend.Cursor(fmt.Sprint(g.events + 1))
	switch g.n(8) {
	case 0:
		in.After = "gone"
	case 1:
		in.Cursor = in.After
	case 2:
		in.After, in.Cursor = "x"+in.After, in.After
		if in.Cursor == "" {
			in.Cursor = "1"
		}
	case 3:
		in.After, in.Cursor = "", ""
	}
	in.Gap = g.n(4) == 0
	if g.n(4) == 0 {
		in.Events = nil
	}
	rejected := modelPick(&g.modelBytes, 0, 0, 0, 1)
	if g.mood == modelLetters {
		rejected = 2
	}
	for range rejected {
		e := g.event()
		e.Kind = ""
		in.Rejected = append(in.Rejected, Rejected{e, "no kind"})
	}
	if g.hostile && g.n(8) == 0 {
		in.Cursor = modelPick[attend.Cursor](&g.modelBytes, "", "\xff")
		in.Source = modelPick(&g.modelBytes, "", "a", "\x00")
	}
	return in
}

// num is the number of what stands first in a lane, or another.
func (g *modelGen) num(s State, l Lane) uint64 {
	if len(g.nums) > 0 && g.n(10) == 0 {
		return g.nums[g.n(min(256, len(g.nums)))]
	}
	switch {
	case l == LaneJudge && s.slot != nil:
		return s.slot.num
	case l == LaneDecision && len(s.decisions.jobs) > 0:
		return s.decisions.jobs[min(len(s.decisions.jobs)-1, g.n(6)/5)].num
	case l == LaneLetter && len(s.letters.jobs) > 0:
		return s.letters.jobs[g.letter(s)].num
	}
	return uint64(g.n(3))
}

// letter is the place of the letter to work on, mostly.
func (g *modelGen) letter(s State) int {
	if g.n(6) == 0 {
		return g.n(min(len(s.letters.jobs), 3))
	}
	return s.letters.next(ms(g.clock))
}

func (g *modelGen) attempt(s State, l Lane) uint64 {
	if len(g.nums) > 0 && g.n(10) == 0 {
		return g.nums[g.n(min(256, len(g.nums)))]
	}
	switch {
	case l == LaneJudge && s.slot != nil:
		return s.slot.lease.attempt
	case l == LaneDecision && len(s.decisions.jobs) > 0:
		return s.decisions.jobs[0].lease.attempt
	case l == LaneLetter && len(s.letters.jobs) > 0:
		return s.letters.jobs[g.letter(s)].lease.attempt
	}
	return uint64(g.n(3))
}

func (g *modelGen) claim(s State, l Lane) Claim {
	in := Claim{At: g.at(s), Lane: l, Owner: uint64(1 + g.n(3))}
	in.Num = g.num(s, l)
	in.Until = time.UnixMilli(max(g.clock, int64(s.now))).Add(modelPick(&g.modelBytes, 30*time.Second, 30*time.Second, time.Second, time.Millisecond, 0))
	if g.hostile && g.n(8) == 0 {
		in.Until = modelPick(&g.modelBytes, time.Time{}, time.UnixMilli(-9), time.UnixMilli(math.MaxInt64), time.UnixMilli(int64(farthest)))
		in.Owner = math.MaxUint64
	}
	return in
}

func (g *modelGen) judged(s State) Judged {
	in := Judged{At: g.at(s), Num: g.num(s, LaneJudge), Attempt: g.attempt(s, LaneJudge)}
	b := &g.modelBytes
	in.Judgment.Route = modelPick(b, attend.RouteWait, attend.RouteInterrupt, attend.RouteQueue, attend.RouteSkip, attend.RouteNote, attend.RouteAsk)
	if s.slot != nil && slices.Contains(s.slot.offered(s.policy), attend.RouteWait) && g.n(2) == 1 {
		in.Judgment.Route = attend.RouteWait
	}
	if g.n(3) == 0 {
		in.Judgment.Probabilities = map[attend.Route]float64{}
		for _, r := range attend.AllRoutes() {
			if g.n(3) > 0 {
				in.Judgment.Probabilities[r] = modelPick(b, 0, 0.1, 0.3, 0.3, 0.5, 0.7, 1)
			}
		}
		in.Judgment.Confidence = modelPick(b, 0, 0.5, 1)
		in.Judgment.Predicates = map[string]float64{"p": modelPick(b, 0.25, 1)}
	}
	if g.hostile || g.n(8) == 0 {
		bad := modelPick(b, math.NaN(), 1.5, -0.1, math.Inf(1), math.Copysign(0, -1))
		switch g.n(8) {
		case 0:
			in.Judgment.Route = modelPick[attend.Route](b, "", "shout", "Wait")
		case 1:
			in.Judgment.Probabilities = map[attend.Route]float64{attend.RouteAsk: bad}
		case 2:
			in.Judgment.Probabilities = map[attend.Route]float64{"shout": 0.5}
		case 3:
			in.Judgment.Predicates = map[string]float64{"\xff": bad}
		case 4:
			in.Judgment.Confidence = bad
		}
	}
	return in
}

func (g *modelGen) failed(s State, l Lane) Failed {
	in := Failed{At: g.at(s), Lane: l, Num: g.num(s, l), Attempt: g.attempt(s, l)}
	in.Message = modelPick(&g.modelBytes, "503", "", strings.Repeat("long", 300))
	in.Permanent, in.Account = g.n(4) == 1 || g.mood == modelLetters, g.n(4) == 1
	in.RetryAfter = modelPick(&g.modelBytes, 0, 0, 2*time.Second, time.Hour)
	if g.hostile && g.n(4) == 0 {
		in.RetryAfter = modelPick[time.Duration](&g.modelBytes, -1, math.MinInt64, math.MaxInt64, 1500*time.Microsecond)
		in.Message = "\x00\xff"
	}
	return in
}
