package conformance_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

func cursorMutants() []mutant {
	return []mutant{
		{wrong: "the third row of a write has the position of the second", fails: "log/positions", store: func(h *hooks) {
			third := new(guarded[attend.Position, bool])
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes)
				if len(writes) == 1 && len(writes[0].Rows) == 3 {
					b, _ := h.in.Log().Bounds(ctx)
					third.set(b.Newest, true)
				}
				return out, err
			}
			onLog(h, func(l *logHooks) {
				editEntries(l, func(e *attend.Entry) bool {
					if same, _ := third.get(e.Cursor.Position); same {
						e.Cursor.Position--
					}
					return true
				})
			})
		}},
		{wrong: "a read with a prefix begins at its cursor, not behind it", fails: "log/read-on", store: func(h *hooks) {
			editQuery(h, func(_ attend.Bounds, q *attend.Query) {
				if q.Prefix != "" && q.After.Position > 0 {
					q.After.Position--
				}
			})
		}},
		{wrong: "each log has the same epoch", fails: "log/epoch", store: func(h *hooks) {
			onLog(h, func(l *logHooks) { showEpoch(l, func(string) string { return "one" }) })
		}},
		{wrong: "Newest is that of decisions and letters", fails: "log/newest", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.bounds = func(ctx context.Context) (attend.Bounds, error) {
					b, err := l.in.Bounds(ctx)
					newest := b.Trimmed
					for e := range l.in.Read(ctx, attend.Query{Types: []attend.RowType{attend.RowDecision, attend.RowLetter}}) {
						newest = e.Cursor.Position
					}
					b.Newest = newest
					return b, err
				}
			})
		}},
		{wrong: "Newest is 0 when every row was trimmed", fails: "log/newest", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.bounds = func(ctx context.Context) (attend.Bounds, error) {
					b, err := l.in.Bounds(ctx)
					if b.Newest > 0 && max(b.Trimmed, b.TrimmedVerdicts) == b.Newest {
						b.Newest = 0
					}
					return b, err
				}
			})
		}},
		{wrong: "the zero cursor is truncated for a reader with a prefix", fails: "log/zero-cursor", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.Prefix != "" && b.Trimmed > 0 && q.After == (attend.LogCursor{}) {
					q.After.Epoch = b.Epoch
				}
			})
		}},
		{wrong: "each page of a read is checked like a read of its own", fails: "log/zero-cursor-classes", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					return func(yield func(attend.Entry, error) bool) {
						for {
							n := 0
							for e, err := range l.in.Read(ctx, q) {
								if n == 100 {
									break
								}
								if !yield(e, err) || err != nil {
									return
								}
								n, q.After = n+1, e.Cursor
							}
							if n < 100 {
								return
							}
						}
					}
				}
			})
		}},
		{wrong: "a cursor's epoch is not looked at", fails: "log/other-epoch", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.After != (attend.LogCursor{}) {
					q.After.Epoch = b.Epoch
				}
			})
		}},
		{wrong: "a cursor ahead of the log finds nothing", fails: "log/ahead", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.After.Epoch == b.Epoch {
					q.After.Position = min(q.After.Position, b.Newest)
				}
			})
		}},
		{wrong: "a read goes on in silence where decisions were trimmed", fails: "log/trimmed", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.After.Epoch == b.Epoch && !q.Wants(attend.RowVerdict) {
					q.After.Position = max(q.After.Position, b.Trimmed)
				}
			})
		}},
		{wrong: "a reader of both classes is not told of trimmed verdict rows", fails: "log/trimmed-class", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.After.Epoch == b.Epoch && q.Wants(attend.RowVerdict) && q.Wants(attend.RowDecision) && q.After.Position >= b.Trimmed {
					q.After.Position = max(q.After.Position, b.TrimmedVerdicts)
				}
			})
		}},
		{wrong: "trimmed decisions truncate a reader of verdict rows", fails: "log/trimmed-class", store: func(h *hooks) {
			editQuery(h, func(b attend.Bounds, q *attend.Query) {
				if q.After.Position > 0 && q.After.Position < b.Trimmed {
					q.After.Epoch = ""
				}
			})
		}},
		{wrong: "Bounds has no mark of trimmed verdict rows", fails: "log/trimmed-class", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.bounds = func(ctx context.Context) (attend.Bounds, error) {
					b, err := l.in.Bounds(ctx)
					b.TrimmedVerdicts = 0
					return b, err
				}
			})
		}},
		{wrong: "Oldest is behind the newest row", fails: "log/oldest", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					b, _ := l.in.Bounds(ctx)
					if err := b.Check(q); err != nil {
						return failing[attend.Entry](&attend.TruncatedError{Oldest: attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}})
					}
					return l.in.Read(ctx, q)
				}
			})
		}},

		{wrong: "decisions and letters are counted apart", fails: "log/trim-count", store: func(h *hooks) {
			editRetain(h, func(l *logHooks, keep *attend.Retain, _ *time.Time) {
				if has(l, attend.RowLetter) > 0 {
					keep.Count *= 2
				}
			})
		}},
		{wrong: "more than ten verdict rows push decisions out", fails: "log/trim-verdicts", store: func(h *hooks) {
			editRetain(h, func(l *logHooks, keep *attend.Retain, _ *time.Time) {
				if has(l, attend.RowVerdict) > 10 {
					keep.Count = min(keep.Count, 1)
				}
			})
		}},
		{wrong: "a log that has verdict rows is not trimmed by age", fails: "log/trim-age", store: func(h *hooks) {
			editRetain(h, func(l *logHooks, keep *attend.Retain, _ *time.Time) {
				if has(l, attend.RowVerdict) > 1 {
					keep.Age = 0
				}
			})
		}},
		{wrong: "each row goes by its own age", fails: "log/trim-age-order", store: func(h *hooks) {
			var cutoff atomic.Int64
			onLog(h, func(l *logHooks) {
				l.trim = func(ctx context.Context, keep attend.Retain, now time.Time) error {
					if keep.Age > 0 {
						cutoff.Store(now.Add(-keep.Age).UnixMilli())
						keep.Age = 0
					}
					return l.in.Trim(ctx, keep, now)
				}
				editEntries(l, func(e *attend.Entry) bool { return cutoff.Load() == 0 || e.At.UnixMilli() >= cutoff.Load() })
			})
		}},
		{wrong: "Trim asks a clock", fails: "log/trim-clock", store: func(h *hooks) {
			editRetain(h, func(_ *logHooks, _ *attend.Retain, now *time.Time) {
				if real := time.Now(); now.After(real) {
					*now = real
				}
			})
		}},
		{wrong: "no limit at all keeps nothing", fails: "log/trim-no-limit", store: func(h *hooks) {
			editRetain(h, func(_ *logHooks, keep *attend.Retain, now *time.Time) {
				if *keep == (attend.Retain{}) {
					keep.Age, *now = time.Hour, time.Now().AddDate(1000, 0, 0)
				}
			})
		}},
		{wrong: "Find finds what was trimmed", fails: "log/trim-find", store: func(h *hooks) {
			rows := new(guarded[attend.DecisionID, attend.Row])
			editRows(h, func(r *attend.Row) { rows.set(r.ID, *r) })
			onLog(h, func(l *logHooks) {
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					e, err := l.in.Find(ctx, id, t)
					if r, ok := rows.get(id); errors.Is(err, attend.ErrNotFound) && ok && r.Type == t {
						return attend.Entry{Row: r}, nil
					}
					return e, err
				}
			})
		}},
		{wrong: "positions start again once every row was trimmed", fails: "log/trim-then-add", store: func(h *hooks) {
			var base atomic.Uint64
			onLog(h, func(l *logHooks) {
				l.trim = func(ctx context.Context, keep attend.Retain, now time.Time) error {
					err := l.in.Trim(ctx, keep, now)
					if b, _ := l.in.Bounds(ctx); has(l, attend.RowDecision)+has(l, attend.RowLetter)+has(l, attend.RowVerdict) == 0 {
						base.Store(uint64(b.Newest))
					}
					return err
				}
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					b, _ := l.in.Bounds(ctx)
					if first := attend.Position(base.Load()); first > 0 && q.After.Position > b.Newest-first {
						return failing[attend.Entry](&attend.TruncatedError{})
					}
					return l.in.Read(ctx, q)
				}
			})
		}},
		{wrong: "a page of decisions begins at the oldest that is left, whatever was trimmed", fails: "log/trim-while-reading", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					if q.Wants(attend.RowVerdict) {
						return l.in.Read(ctx, q)
					}
					return func(yield func(attend.Entry, error) bool) {
						for {
							n := 0
							var page []attend.Entry
							for e, err := range l.in.Read(ctx, q) {
								if err != nil {
									yield(e, err)
									return
								}
								if page = append(page, e); len(page) == 100 {
									break
								}
							}
							for _, e := range page {
								if n++; !yield(e, nil) {
									return
								}
							}
							if n < 100 {
								return
							}
							q.After = page[n-1].Cursor
							b, _ := l.in.Bounds(ctx)
							q.After.Position = max(q.After.Position, b.Trimmed)
						}
					}
				}
			})
		}},
	}
}

// showEpoch shows another epoch than the log has, and takes it back.
func showEpoch(l *logHooks, show func(real string) string) {
	l.bounds = func(ctx context.Context) (attend.Bounds, error) {
		b, err := l.in.Bounds(ctx)
		b.Epoch = show(b.Epoch)
		return b, err
	}
	back := func(ctx context.Context, q attend.Query) attend.Query {
		b, _ := l.in.Bounds(ctx)
		switch q.After.Epoch {
		case show(b.Epoch):
			q.After.Epoch = b.Epoch
		case b.Epoch:
			q.After.Epoch = "?"
		}
		return q
	}
	l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
		return func(yield func(attend.Entry, error) bool) {
			for e, err := range l.in.Read(ctx, back(ctx, q)) {
				e.Cursor.Epoch = show(e.Cursor.Epoch)
				if t, ok := errors.AsType[*attend.TruncatedError](err); ok {
					err = &attend.TruncatedError{Oldest: attend.LogCursor{Epoch: show(t.Oldest.Epoch), Position: t.Oldest.Position}}
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
	l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
		e, err := l.in.Find(ctx, id, t)
		if err == nil {
			e.Cursor.Epoch = show(e.Cursor.Epoch)
		}
		return e, err
	}
	l.wait = func(ctx context.Context, q attend.Query) error { return l.in.(attend.Waiter).Wait(ctx, back(ctx, q)) }
}

// editRetain trims by something else.
func editRetain(h *hooks, edit func(l *logHooks, keep *attend.Retain, now *time.Time)) {
	onLog(h, func(l *logHooks) {
		l.trim = func(ctx context.Context, keep attend.Retain, now time.Time) error {
			edit(l, &keep, &now)
			return l.in.Trim(ctx, keep, now)
		}
	})
}

// has is how many rows of a type the log holds.
func has(l *logHooks, t attend.RowType) (n int) {
	for range l.in.Read(context.Background(), attend.Query{Types: []attend.RowType{t}}) {
		n++
	}
	return n
}
