package conformance

import "slices"

// chapters are the stories of one scope at a time. Together they touch every
// input, both lanes, and every way in which a window settles.
func chapters() []*story {
	return slices.Concat(settling(), answering(), living())
}

// settling is how events come in, and windows settle.
func settling() []*story {
	return []*story{
		tell("walk", `
			0s      repo push   l1:consequence a1:closing
			20s     repo push   a2:closing                  # joins, and settles later
			3m      repo push   l2:consequence x1:context   # settle nothing
			5m      repo push   a1:closing a3:closing       # one has been there
			8m      repo push   s1:flush
			10m     repo push   l3:consequence
			want repo queue l1 a1 a2
			want repo queue l2 x1 a3
			want repo queue s1
			left repo l3`),
		tell("stale", `
			set MaxWindow=4m
			0s      repo push   l1:consequence
			5m      repo push   a1:passive                  # what came before is stale
			want repo queue a1`),
		tell("age", `
			set MaxWindow=2m
			0s      repo push   a1:continuous
			1m      repo push   a2:continuous
			119s    repo push   a3:continuous               # and would go on for ever
			want repo queue a1 a2 a3`),
		tell("count", `
			set MaxEvents=3
			judge a1 skip
			0s      repo push   l1:consequence l2:consequence x1:context l3:consequence
			20s     repo push   a1:closing                  # makes room for itself`),
		tell("overflow", `
			set MaxEvents=3
			0s      repo push   a1:closing a2:closing a3:closing a4:closing
			want repo queue a1 a2 a3
			want repo queue a4`),
		tell("size", `
			set MaxWindowBytes=3000
			0s      repo push   d1:closing*1500 d2:closing*1500
			5m      repo push   l1:consequence*1500 l2:consequence*1500
			want repo queue d1
			want repo queue d2
			left repo l2`),
		tell("wait", `
			judge a1 wait
			judge a2 wait wait
			judge a3 note
			0s      repo push   a1:closing                  # held
			2m      repo push   l1:consequence
			3m      repo push   a2:closing                  # judged with it, and held again
			6m      repo push   a3:closing                  # and no third time
			want repo note a1 l1 a2 a3`),
		tell("horizon", `
			judge a1 wait skip
			0s      repo push   a1:closing`),
		tell("forced", `
			judge a1 wait interrupt
			0s      repo push   a1:closing                  # held
			3m      repo flush
			want repo interrupt a1`),
		tell("end", `
			judge a1 wait ask
			0s      repo push   a1:closing                  # held
			3m      repo end
			8m      repo push   x1:context
			9m      repo end                                # that is no reason to wake anybody
			want repo ask a1
			left repo x1`),
		tell("end-early", `
			0s      repo push   a1:closing
			10s     repo end
			3m      repo flush                              # finds nothing
			want repo queue a1`),
		tell("busy-flush", `
			judge a1 later:40s queue
			0s      repo push   a1:flush
			5s      repo push   l1:consequence a2:closing busy
			10s     repo flush  busy                        # remembered until a1 is judged
			want repo queue a1
			want repo queue l1 a2`),
		tell("busy-end", `
			judge a1 later:40s note
			judge a2 wait skip
			0s      repo push   a1:flush
			5s      repo push   l1:consequence a2:closing busy
			10s     repo end    busy
			want repo note a1`),
		tell("source", `
			0s      repo batch  feed >c1 a1:closing l1:consequence
			20s     repo batch  feed c1>c2 gap a2:closing
			3m      repo batch  feed c2>c3 a3:flush a1:closing
			5m      repo batch  feed c3>c4                  # nothing but the cursor
			7m      repo rival  feed c2>c9 a9:flush         # somebody runs it from an old place
			want repo queue a1 l1 a2
			want repo queue a3`),
		tell("source-errs", `
			letters a1 fail
			0s      repo batch  feed >c1 a1:odd a2:flush    # a kind that there is not
			2m      repo push   a2:flush                    # another one than the source's
			want repo intake a1
			want repo queue a2
			want repo queue a2`),
		tell("source-gap", `
			0s      repo batch  feed >c1 gap                # the next window hears of it
			1m      repo batch  clock a1:passive            # a source that can't resume
			want repo queue a1`),
	}
}

// answering is what judge, sink and handler make of them.
func answering() []*story {
	return []*story{
		tell("judge", `
			set ActThreshold=0.7
			judge a1 skip(interrupt=0.5,ask=0.3)            # the threshold changes it
			judge a2 skip
			0s      repo push   a1:flush
			2m      repo push   a2:flush
			want repo interrupt a1`),
		tell("judge-fails", `
			judge a1 fail fail queue
			0s      repo push   a1:flush
			want repo queue a1`),
		tell("judge-errs", `
			judge a1 bad first:wait interrupt               # wait is not offered for a flush
			0s      repo push   a1:flush
			want repo interrupt a1`),
		tell("judge-later", `
			judge a1 later:20s note
			0s      repo push   a1:closing
			want repo note a1`),
		tell("judge-down", `
			judge a1 down
			letters a1 fail
			0s      repo push   a1:flush
			want repo judge a1`),
		tell("letters", `
			judge a1 permanent
			judge a2 permanent
			letters a1 later:20s                            # the other one doesn't wait for it
			0s      repo push   a1:flush
			10s     repo push   a2:flush busy
			want repo judge a1
			want repo judge a2`),
		tell("account", `
			judge a1 account account queue
			0s      repo push   a1:flush
			want repo queue a1`),
		tell("outage", `
			set AccountGrace=3s
			judge a1 outage
			0s      repo push   a1:flush
			want repo judge a1`),
		tell("sink-fails", `
			sink a1 fail fail
			0s      repo push   a1:flush
			500ms   repo push   a2:flush busy               # leaves behind a1
			want repo queue a1
			want repo queue a2`),
		tell("sink-down", `
			judge a1 ask
			sink a1 down
			0s      repo push   a1:flush
			want repo ask a1
			want repo sink a1`),
		tell("sink-refuses", `
			judge a1 interrupt
			sink a1 permanent
			letters a1 fail
			0s      repo push   a1:flush
			want repo interrupt a1
			want repo sink a1`),
		tell("sink-later", `
			sink a1 later:10s
			0s      repo push   a1:flush
			want repo queue a1`),
		tell("full", `
			set MaxOutbox=1
			sink a1 later:20s later:20s
			0s      repo push   a1:flush
			10s     repo push   a2:flush busy               # refused, until a1 has left
			want repo queue a1
			want repo queue a2`),
	}
}

// living is how processes begin and end, and scopes too.
func living() []*story {
	return []*story{
		tell("stop-judge", `
			judge a1 stop queue
			0s      repo push   a1:flush
			want repo queue a1`),
		tell("stop-sink", `
			sink a1 stop
			0s      repo push   a1:continuous
			want repo queue a1`),
		tell("stop-letter", `
			judge a1 permanent
			letters a1 stop
			0s      repo push   a1:flush
			want repo judge a1`),
		tell("deploy", `
			0s      repo push   a1:closing
			10s     repo deploy ClosingGrace=20s
			15s     repo push   l1:consequence              # a1's deadline stays
			want repo queue a1 l1`),
		tell("deploy-less", `
			0s      repo push   l2:consequence l3:consequence l4:consequence
			1m      repo deploy MaxEvents=2
			2m      repo push   a2:flush                    # two of them have to go
			want repo queue l4 a2`),
		tell("expire", `
			set IdleExpiry=24h MaxWindow=48h
			0s      repo push   a1:flush
			5m      repo push   l1:consequence              # goes when the scope does
			30h     repo push   a1:flush                    # a new life
			want repo queue a1
			want repo queue a1
			twice a1`),
		tell("cursors-stay", `
			set IdleExpiry=24h
			0s      repo push   a1:flush
			2m      repo deploy
			3m      repo batch  feed >c1 a2:flush
			30h     repo batch  feed c1>c2 a3:flush*1100    # goes on where it was
			30h5m   repo push   a1:flush*1200               # but this is forgotten
			want repo queue a1
			want repo queue a2
			want repo queue a3
			want repo queue a1
			twice a1`),
		tell("log-alone", `
			set Sink=log DeadLetter=log OmitVerdicts
			judge a1 wait note
			judge a2 permanent
			0s      repo push   a1:closing
			10m     repo push   a2:flush
			12m     repo batch  feed >c1 a3:odd
			want repo note a1
			want repo judge a2
			want repo intake a3`),
		tell("pure", `
			set Judge=pure
			judge a1 wait
			judge l1 ask
			0s      repo push   a1:closing
			2m      repo push   l1:consequence
			3m      repo flush
			want repo ask a1 l1`),
		tell("pure-fails", `
			set Judge=pure
			judge a1 fail queue
			0s      repo push   a1:flush
			want repo queue a1`),
	}
}
