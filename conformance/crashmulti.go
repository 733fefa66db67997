package conformance

// crossings are stories of several scopes whose steps fall between each other:
// one process holds work for all of them when it dies. Only steps of one scope
// wait until it has come to rest.
func crossings() []*story {
	return []*story{
		tell("three", `
			judge b1 wait
			judge c1 permanent
			0s      repo push   l1:consequence a1:closing
			1s      chat push   b1:closing
			1500ms  mail batch  feed >c1 c1:flush
			20s     repo push   a2:closing
			2m      chat push   b2:closing                  # joins what is held
			5m      mail flush                              # finds nothing
			want repo queue l1 a1 a2
			want chat queue b1 b2
			want mail judge c1`),
		tell("busy", `
			judge a1 later:30s interrupt
			sink c1 fail
			0s      repo push   a1:flush
			1s      repo push   a2:closing busy
			2s      mail batch  feed >c1 c1:flush
			3s      repo end    busy
			want repo interrupt a1
			want repo queue a2
			want mail queue c1`),
		tell("at-once", `
			set IdleExpiry=24h
			judge b1 skip
			0s      one   push  a1:closing l1:consequence   # they settle at one moment
			0s      two   push  b1:closing
			0s      three push  l3:consequence
			30h     one   push  a2:flush                    # all of them have ended
			want one queue a1 l1
			want one queue a2`),
	}
}

// pairs are stories of two processes that share the work of a store, each on a
// handle of its own where there are two. One of them dies, and the other goes
// on alone once its leases have ended; or an answer is lost, and the other is
// faster than who asks again.
func pairs() []*story {
	return []*story{
		tell("turns", `
			0s      p1 repo push a1:closing
			20s     p2 repo push a2:closing                 # each finds out by losing a race
			3m      p1 repo push a3:flush
			want repo queue a1 a2
			want repo queue a3`),
		tell("behind", `
			judge a1 fail queue
			0s      p1 repo push a1:flush
			2m      p2 repo push a1:flush l1:consequence
			5m      p1 repo flush                           # of what the other one brought
			want repo queue a1
			want repo queue l1`),
		tell("share", `
			sink b1 fail
			0s      p1 repo push a1:closing
			5s      p2 chat push b1:closing
			3m      p2 repo push a2:flush
			want repo queue a1
			want repo queue a2
			want chat queue b1`),
		tell("source-moves", `
			judge c2 permanent
			0s      p1 mail batch feed >c1 c1:closing
			20s     p2 mail batch feed c1>c2 c2:closing     # it runs here, too
			30s     p1 mail rival feed >c9 c9:flush
			3m      p1 mail batch feed c2>c3 c3:flush
			want mail judge c1 c2
			want mail queue c3`),
		// Where an answer is lost, the other process writes before this one asks
		// again. What it brought counts once all the same, though the scope's
		// memory has forgotten it.
		tell("push-again", `
			set SeenCount=1
			0s      p1 repo push l1:consequence
			meanwhile p2 repo push l2:consequence
			meanwhile p2 repo push l3:consequence
			meanwhile p2 repo push l4:consequence
			meanwhile p2 repo flush
			want repo queue l1 l2 l3 l4`),
		tell("flush-again", `
			0s      p1 repo push l1:consequence
			1m      p1 repo flush
			meanwhile p2 repo push l2:consequence
			5m      p1 chat push b1:closing
			5m10s   p1 chat end
			meanwhile p2 chat push l3:consequence
			want repo queue l1
			want chat queue b1
			left repo l2
			left chat l3`),
		tell("gap-again", `
			0s      p1 repo batch clock gap l1:consequence  # no cursor says that it is there
			meanwhile p2 repo flush
			3m      p2 repo push a1:flush
			want repo queue l1
			want repo queue a1`),
		tell("removed", `
			0s      p1 repo push l1:consequence             # it knows the scope's first version
			1m      p2 repo remove l1
			2m      p2 repo push a1:closing                 # and now there is another first one
			2m10s   p1 repo push a2:closing*1200            # enough for a snapshot
			want repo queue a1 a2`),
		tell("expired", `
			set IdleExpiry=24h
			0s      p1 repo push a1:flush
			30h     p2 repo push a1:flush
			30h5m   p1 repo push a2:flush
			want repo queue a1
			want repo queue a1
			want repo queue a2
			twice a1`),
	}
}
