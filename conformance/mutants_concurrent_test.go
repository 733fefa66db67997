package conformance_test

import (
	"context"
	"errors"
	"time"

	attend "github.com/attend-go/attend/core"
)

func concurrentMutants() []mutant {
	return []mutant{
		{wrong: "a version is checked a moment before the write, in a scope that has a snapshot", fails: "concurrent/one-winner", store: func(h *hooks) {
			checkThenAct(h, func(rec attend.Record, writes []attend.Write) bool {
				return len(writes) == 1 && rec.Snapshot != nil && len(writes[0].Inputs) > 0
			})
		}},
		{wrong: "that there is no such scope is checked a moment before it is made", fails: "concurrent/one-creator", store: func(h *hooks) {
			checkThenAct(h, func(rec attend.Record, writes []attend.Write) bool {
				return len(writes) == 1 && rec.Version == 0 && len(writes[0].Inputs) > 0
			})
		}},
		{wrong: "versions in a group are checked a moment before its writes", fails: "concurrent/groups", store: func(h *hooks) {
			checkThenAct(h, func(_ attend.Record, writes []attend.Write) bool { return len(writes) > 1 })
		}},
		{wrong: "rows land a moment before the state that made them", fails: "concurrent/whole", store: func(h *hooks) {
			inTwo(h, func(ctx context.Context, rows, state func() ([]attend.Outcome, error)) ([]attend.Outcome, error) {
				rows()
				time.Sleep(20 * time.Microsecond)
				return state()
			})
		}},
		{wrong: "rows land a moment after the state that made them", fails: "concurrent/whole", store: func(h *hooks) {
			inTwo(h, func(ctx context.Context, rows, state func() ([]attend.Outcome, error)) ([]attend.Outcome, error) {
				out, err := state()
				time.Sleep(20 * time.Microsecond)
				rows()
				return out, err
			})
		}},
		{wrong: "some rows of busy writers show after later ones", fails: "concurrent/log-order", store: func(h *hooks) {
			fly := new(flight)
			pairs := new(guarded[attend.DecisionID, bool])
			h.commit = func(ctx context.Context, writes []attend.Write) (out []attend.Outcome, err error) {
				fly.during(func() {
					for _, w := range writes {
						if len(w.Rows) == 2 {
							pairs.set(w.Rows[0].ID, true)
						}
					}
					out, err = h.in.Commit(ctx, writes)
					time.Sleep(20 * time.Microsecond)
				})
				return out, err
			}
			onLog(h, func(l *logHooks) { hideSome(l, fly, pairs) })
		}},
		{wrong: "Newest counts rows that are still to come", fails: "concurrent/log-newest", store: func(h *hooks) {
			fly := new(flight)
			busy(h, fly)
			onLog(h, func(l *logHooks) {
				l.bounds = func(ctx context.Context) (attend.Bounds, error) {
					b, err := l.in.Bounds(ctx)
					b.Newest += attend.Position(2 * fly.n.Load())
					return b, err
				}
			})
		}},
		{wrong: "Due leaves out a scope while others are written", fails: "concurrent/due", store: func(h *hooks) {
			fly := new(flight)
			busy(h, fly)
			h.due = dueOf(h, func(due []attend.Scope) []attend.Scope {
				if fly.n.Load() > 0 && len(due) > 0 {
					return due[1:]
				}
				return due
			})
		}},
		{wrong: "Remove fails while a Commit is under way", fails: "concurrent/methods", store: func(h *hooks) {
			fly := new(flight)
			busy(h, fly)
			h.remove = func(ctx context.Context, scope attend.Scope) error {
				if fly.n.Load() > 0 {
					return errors.New("busy")
				}
				return h.in.Remove(ctx, scope)
			}
		}},

		{wrong: "another handle goes on showing a snapshot that it has seen", fails: "concurrent/handles-share", store: func(h *hooks) {
			h.reopen = func(h *hooks) {
				seen := new(guarded[attend.Scope, attend.Record])
				editRecord(h, func(scope attend.Scope, rec *attend.Record) {
					if old, ok := seen.get(scope); ok {
						*rec = old
					} else if rec.Snapshot != nil {
						seen.set(scope, *rec)
					}
				})
			}
		}},
		{wrong: "another handle checks versions against what it has loaded", fails: "concurrent/handles-conflict", store: func(h *hooks) {
			h.reopen = func(h *hooks) {
				loaded := new(guarded[attend.Scope, uint64])
				editWrites(h, func(ctx context.Context, w *attend.Write) {
					rec, _ := h.in.Load(ctx, w.Scope)
					if v, ok := loaded.get(w.Scope); ok && v == w.Expect && v != 0 {
						w.Expect = rec.Version
					}
				})
				editRecord(h, func(scope attend.Scope, rec *attend.Record) { loaded.set(scope, rec.Version) })
			}
		}},
		{wrong: "another handle checks a version a moment before the write", fails: "concurrent/handles-winner", store: func(h *hooks) {
			h.reopen = func(h *hooks) {
				checkThenAct(h, func(rec attend.Record, _ []attend.Write) bool { return len(rec.Tail) == 1 })
			}
		}},
		{wrong: "each handle has an epoch of its own", fails: "concurrent/handles-epoch", store: func(h *hooks) {
			h.reopen = func(h *hooks) {
				onLog(h, func(l *logHooks) { showEpoch(l, func(real string) string { return "b" + real }) })
			}
		}},
		{wrong: "some rows of a busy handle show late on another", fails: "concurrent/handles-log", store: func(h *hooks) {
			fly := new(flight)
			busy(h, fly)
			h.reopen = func(h *hooks) {
				onLog(h, func(l *logHooks) { hideSome(l, fly, nil) })
			}
		}},
		{wrong: "Wait does not hear of other handles", fails: "concurrent/handles-wait", hangs: true, store: func(h *hooks) {
			h.reopen = func(h *hooks) {
				onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}
		}},
		{wrong: "closing one handle closes the others", fails: "concurrent/handles-close", store: func(h *hooks) {
			own := h.in
			h.close = func() { own.Close() }
			editRecord(h, func(attend.Scope, *attend.Record) {})
		}},
	}
}

// checkThenAct checks the versions of the writes that it is asked about, and
// applies them a moment later to whatever is there then.
func checkThenAct(h *hooks, when func(rec attend.Record, writes []attend.Write) bool) {
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		if len(writes) == 0 {
			return h.in.Commit(ctx, writes)
		}
		rec, err := h.in.Load(ctx, writes[0].Scope)
		if err != nil || !when(rec, writes) {
			return h.in.Commit(ctx, writes)
		}
		var good []int
		for i, w := range writes {
			if rec, _ := h.in.Load(ctx, w.Scope); rec.Version == w.Expect {
				good = append(good, i)
			}
		}
		time.Sleep(50 * time.Microsecond)
		out := make([]attend.Outcome, len(writes))
		for _, i := range good {
			for out[i].Conflict() {
				w := writes[i]
				rec, _ := h.in.Load(ctx, w.Scope)
				w.Expect = rec.Version
				one, err := h.in.Commit(ctx, []attend.Write{w})
				if err != nil {
					return nil, err
				}
				out[i] = one[0]
			}
		}
		return out, nil
	}
}

// inTwo commits rows and state of a single write as two steps.
func inTwo(h *hooks, order func(ctx context.Context, rows, state func() ([]attend.Outcome, error)) ([]attend.Outcome, error)) {
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		if len(writes) != 1 || len(writes[0].Rows) != 1 || len(writes[0].Inputs) == 0 || writes[0].Forget {
			return h.in.Commit(ctx, writes)
		}
		w := writes[0]
		if rec, err := h.in.Load(ctx, w.Scope); err != nil || rec.Version != w.Expect {
			return h.in.Commit(ctx, writes)
		}
		return order(ctx,
			func() ([]attend.Outcome, error) { rowsOf(ctx, h, writes[0].Rows); return nil, nil },
			func() ([]attend.Outcome, error) {
				w.Rows = nil
				return h.in.Commit(ctx, []attend.Write{w})
			})
	}
}

// busy counts commits, and draws them out a little.
func busy(h *hooks, fly *flight) {
	h.commit = func(ctx context.Context, writes []attend.Write) (out []attend.Outcome, err error) {
		fly.during(func() {
			time.Sleep(20 * time.Microsecond)
			out, err = h.in.Commit(ctx, writes)
		})
		return out, err
	}
}

// hideSome leaves out some rows, and shows the later ones, while others commit.
func hideSome(l *logHooks, fly *flight, among *guarded[attend.DecisionID, bool]) {
	editEntries(l, func(e *attend.Entry) bool {
		if among != nil {
			if _, ok := among.get(e.ID); !ok {
				return true
			}
		}
		return fly.n.Load() == 0 || e.Cursor.Position%5 > 0
	})
}
