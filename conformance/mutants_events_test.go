package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

// A wrongEvents is the reference event log with some of its methods broken.
type wrongEvents struct {
	*memory.EventLog
	h     *eventHooks
	ended *ending
}

type eventHooks struct {
	in      *memory.EventLog
	handles int
	append  func(context.Context, attend.Scope, []attend.Event) error
	batches func(context.Context, attend.Scope, attend.Cursor) iter.Seq2[attend.Batch, error]
	wait    func(context.Context, attend.Scope, attend.Cursor) error
	apart   bool                        // a second handle has a log of its own
	reopen  func(second *eventHooks)    // breaks the second handle further
	alive   string                      // a method that works on a closed log
	atClose func(context.Context) error // as in logHooks
}

func newWrongLog(keep attend.Retain, breakIt func(*eventHooks)) *wrongEvents {
	l := memory.NewEventLogWith(memory.Options{Retain: keep})
	h := &eventHooks{in: l.Reopen(), handles: 1}
	breakIt(h)
	return &wrongEvents{l, h, newEnding()}
}

func (l *wrongEvents) reopen() *wrongEvents {
	if l.h.apart {
		return &wrongEvents{memory.NewEventLog(), l.h, newEnding()}
	}
	l.h.handles++
	h := *l.h
	if h.reopen != nil {
		h.reopen(&h)
	}
	return &wrongEvents{l.EventLog.Reopen(), &h, newEnding()}
}

func (l *wrongEvents) Close() error {
	defer l.ended.end()
	return l.EventLog.Close()
}

func (l *wrongEvents) over(ctx context.Context) error {
	return l.EventLog.Append(context.WithoutCancel(ctx), "", nil)
}

func (l *wrongEvents) Append(ctx context.Context, scope attend.Scope, events []attend.Event) error {
	if l.h.append == nil || l.over(ctx) != nil {
		return l.EventLog.Append(ctx, scope, events)
	}
	return l.h.append(ctx, scope, events)
}

func (l *wrongEvents) Batches(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
	if l.h.alive == "Batches" {
		return l.h.in.Batches(ctx, scope, after)
	}
	if l.h.batches == nil || l.over(ctx) != nil {
		return l.EventLog.Batches(ctx, scope, after)
	}
	return l.h.batches(ctx, scope, after)
}

func (l *wrongEvents) WaitEvents(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
	if l.h.wait == nil || l.over(ctx) != nil {
		return l.EventLog.WaitEvents(ctx, scope, after)
	}
	return l.ended.during(ctx, l.h.atClose, func(ctx context.Context) error { return l.h.wait(ctx, scope, after) })
}

// renameScopes takes scopes whose names become the same for one.
func renameScopes(h *eventHooks, f func(string) string) {
	to := func(s attend.Scope) attend.Scope { return attend.Scope(f(string(s))) }
	h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
		return h.in.Append(ctx, to(scope), events)
	}
	h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
		return h.in.Batches(ctx, to(scope), after)
	}
	h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
		return h.in.WaitEvents(ctx, to(scope), after)
	}
}

// leaveOut leaves out the events whose key, of scope and id, another event has.
func leaveOut[K comparable](h *eventHooks, key func(attend.Scope, string) K) {
	type event struct {
		scope attend.Scope
		id    string
	}
	owner := new(guarded[K, event])
	h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
		if _, err := cleaned(events); err != nil {
			return h.in.Append(ctx, scope, events)
		}
		events = slices.DeleteFunc(slices.Clone(events), func(e attend.Event) bool {
			k, me := key(scope, e.ID), event{scope, e.ID}
			who, ok := owner.get(k)
			if !ok {
				owner.set(k, me)
			}
			return ok && who != me
		})
		return h.in.Append(ctx, scope, events)
	}
}

// again marks the id of an event that is kept twice.
const again = "\u2060"

// showAgain shows the events that are kept twice by their own id.
func showAgain(h *eventHooks) {
	editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
		for i := range b.Events {
			b.Events[i].ID = strings.TrimSuffix(b.Events[i].ID, again)
		}
	})
}

// editBatches changes what Batches yields.
func editBatches(h *eventHooks, edit func(after attend.Cursor, b *attend.Batch)) {
	h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
		return func(yield func(attend.Batch, error) bool) {
			for b, err := range h.in.Batches(ctx, scope, after) {
				edit(after, &b)
				if !yield(b, err) {
					return
				}
			}
		}
	}
}

// joined puts batches together where the outcome has no more than this.
func joined(h *eventHooks, may func(a, b attend.Batch) bool) {
	h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
		return gathered(h.in.Batches(ctx, scope, after), func(all []attend.Batch) (out []attend.Batch) {
			for _, b := range all {
				if n := len(out); n > 0 && may(out[n-1], b) {
					out[n-1].Events = slices.Concat(out[n-1].Events, b.Events)
					out[n-1].Cursor = b.Cursor
					continue
				}
				out = append(out, b)
			}
			return out
		})
	}
}

func size(b attend.Batch) (n int) {
	for _, e := range b.Events {
		n += e.Size()
	}
	return n
}

// early is the place before c.
func early(c attend.Cursor) attend.Cursor {
	at, _ := attend.ParseLogCursor(string(c))
	at.Position--
	return attend.Cursor(at.String())
}

// mine reports whether a cursor is one that this log gave out.
func mine(h *eventHooks, c attend.Cursor) bool {
	h.in.Append(context.Background(), "mine", []attend.Event{{ID: "x", Name: "x"}})
	for b := range h.in.Batches(context.Background(), "mine", "") {
		own, _ := attend.ParseLogCursor(string(b.Cursor))
		at, err := attend.ParseLogCursor(string(c))
		return err == nil && at.Epoch == own.Epoch
	}
	return false
}

func eventMutants() []mutant {
	return []mutant{
		{wrong: "the events of an append are sorted by id", fails: "events/order", log: func(h *eventHooks) {
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				if _, err := cleaned(events); err == nil {
					events = slices.Clone(events)
					slices.SortFunc(events, func(a, b attend.Event) int { return strings.Compare(a.ID, b.ID) })
				}
				return h.in.Append(ctx, scope, events)
			}
		}},
		{wrong: "scopes are told apart without regard to case", fails: "events/scopes", log: func(h *eventHooks) { renameScopes(h, strings.ToLower) }},
		{wrong: "scopes are told apart by their first 511 bytes", fails: "events/scopes", log: func(h *eventHooks) {
			renameScopes(h, func(s string) string { return s[:min(len(s), 511)] })
		}},
		{wrong: "scopes are told apart without regard to quotes", fails: "events/scopes", log: func(h *eventHooks) {
			renameScopes(h, func(s string) string { return strings.NewReplacer(`"`, "'", "`", "'").Replace(s) })
		}},
		{wrong: "the events before an invalid one are taken", fails: "events/refused", log: func(h *eventHooks) {
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				i, err := cleaned(events)
				if err != nil {
					h.in.Append(ctx, scope, events[:i])
				}
				return errors.Join(err, h.in.Append(ctx, scope, events))
			}
		}},
		{wrong: "an invalid event is refused without its place", fails: "events/refused-place", log: func(h *eventHooks) {
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				if _, err := cleaned(events); err != nil {
					return err
				}
				return h.in.Append(ctx, scope, events)
			}
		}},
		{wrong: "data is kept as it came", fails: "events/clean", log: func(h *eventHooks) {
			raw := new(guarded[string, []byte])
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				for _, e := range events {
					raw.set(e.ID, bytes.Clone(e.Data))
				}
				return h.in.Append(ctx, scope, events)
			}
			editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
				for i := range b.Events {
					if data, ok := raw.get(b.Events[i].ID); ok {
						b.Events[i].Data = bytes.Clone(data)
					}
				}
			})
		}},
		{wrong: "an id comes again if its text is another", fails: "events/repeat", log: func(h *eventHooks) {
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				events = slices.Clone(events)
				for i := range events {
					if events[i].Text == "another text" {
						events[i].ID += again
					}
				}
				return h.in.Append(ctx, scope, events)
			}
			showAgain(h)
		}},
		{wrong: "an id is left out that another scope has", fails: "events/repeat-scope", log: func(h *eventHooks) {
			leaveOut(h, func(_ attend.Scope, id string) string { return id })
		}},
		{wrong: "ids are told apart without regard to case", fails: "events/ids", log: func(h *eventHooks) {
			leaveOut(h, func(scope attend.Scope, id string) [2]string { return [2]string{string(scope), strings.ToLower(id)} })
		}},
		{wrong: "ids are told apart by their first 255 bytes", fails: "events/ids", log: func(h *eventHooks) {
			leaveOut(h, func(scope attend.Scope, id string) [2]string { return [2]string{string(scope), id[:min(len(id), 255)]} })
		}},
		{wrong: "scope and id are one text with a colon between them", fails: "events/ids", log: func(h *eventHooks) {
			leaveOut(h, func(scope attend.Scope, id string) string { return string(scope) + ":" + id })
		}},
		{wrong: "the log keeps the caller's data", fails: "events/copies", log: func(h *eventHooks) {
			kept := new(guarded[string, []byte])
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				for _, e := range events {
					kept.set(e.ID, e.Data)
				}
				return h.in.Append(ctx, scope, events)
			}
			editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
				for i, e := range b.Events {
					if data, ok := kept.get(e.ID); ok && len(data) == len(e.Data) && bytes.HasPrefix(e.Data, []byte(`{"n":`)) {
						b.Events[i].Data = bytes.Clone(data)
					}
				}
			})
		}},
		{wrong: "Batches yields the same data each time", fails: "events/copies", log: func(h *eventHooks) {
			seen := new(guarded[string, []byte])
			editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
				for i, e := range b.Events {
					if data, ok := seen.get(e.ID); ok {
						b.Events[i].Data = data
					}
					seen.set(e.ID, b.Events[i].Data)
				}
			})
		}},
		{wrong: "a scope without events has an empty batch", fails: "events/nothing", log: func(h *eventHooks) {
			h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
				return gathered(h.in.Batches(ctx, scope, after), func(all []attend.Batch) []attend.Batch {
					if len(all) == 0 {
						all = append(all, attend.Batch{Cursor: after})
					}
					return all
				})
			}
		}},
		{wrong: "a batch has up to 1,500 events", fails: "events/batch-count", log: func(h *eventHooks) {
			joined(h, func(a, b attend.Batch) bool {
				return len(a.Events)+len(b.Events) <= 1500 && size(a)+size(b) < 1<<20
			})
		}},
		{wrong: "a batch has any number of bytes", fails: "events/batch-bytes", log: func(h *eventHooks) {
			joined(h, func(a, b attend.Batch) bool { return len(a.Events)+len(b.Events) <= 1000 })
		}},
		{wrong: "the cursor of two events stands before the second, once a log has a second scope", fails: "events/read-on", log: func(h *eventHooks) {
			scopes := new(guarded[attend.Scope, bool])
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				scopes.set(scope, true)
				return h.in.Append(ctx, scope, events)
			}
			editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
				if _, other := scopes.get("other"); other && len(b.Events) == 2 {
					b.Cursor = early(b.Cursor)
				}
			})
		}},
		{wrong: "Batches holds a lock that Append needs", fails: "events/holds-nothing", hangs: true, log: func(h *eventHooks) { lockBatches(h, false) }},
		{wrong: "a Batches that is left early keeps a lock that Append needs", fails: "events/left", hangs: true, log: func(h *eventHooks) { lockBatches(h, true) }},
		{wrong: "Batches goes on behind an error", fails: "events/error", log: func(h *eventHooks) {
			h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
				return onAfter(h.in.Batches(ctx, scope, after))
			}
		}},
		{wrong: "WaitEvents from the start waits for what comes next", fails: "events/wait-there", hangs: true, log: func(h *eventHooks) {
			h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
				for range h.in.Batches(ctx, scope, after) {
					if after == "" {
						<-ctx.Done()
						return ctx.Err()
					}
				}
				return h.in.WaitEvents(ctx, scope, after)
			}
		}},
		{wrong: "WaitEvents does not hear of its own handle", fails: "events/wait-wakes", hangs: true, log: func(h *eventHooks) {
			h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
				if after != "" && h.handles == 1 && mine(h, after) {
					<-ctx.Done()
					return ctx.Err()
				}
				return h.in.WaitEvents(ctx, scope, after)
			}
		}},
		{wrong: "WaitEvents returns nil when its context ends", fails: "events/wait-ends", log: func(h *eventHooks) {
			h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
				h.in.WaitEvents(ctx, scope, after)
				return nil
			}
		}},
		{wrong: "WaitEvents does not hear of scopes whose names are long", fails: "events/wait-wakes", hangs: true, log: func(h *eventHooks) {
			h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
				if len(scope) > 500 {
					<-ctx.Done()
					return ctx.Err()
				}
				return h.in.WaitEvents(ctx, scope, after)
			}
		}},
		{wrong: "a WaitEvents that blocks goes on when its log is closed", fails: "events/wait-closed", hangs: true, log: func(h *eventHooks) {
			h.wait, h.atClose = h.in.WaitEvents, goesOn
		}},
		{wrong: "a WaitEvents that blocks says that its context was cancelled when its log is closed", fails: "events/wait-closed", log: func(h *eventHooks) {
			h.wait, h.atClose = h.in.WaitEvents, givesUp
		}},
		{wrong: "an event is lost where appends overlap, on a log with one handle", fails: "events/concurrent", log: func(h *eventHooks) {
			fly := new(flight)
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) (err error) {
				fly.during(func() {
					time.Sleep(20 * time.Microsecond)
					if fly.n.Load() > 1 && h.handles == 1 {
						events = events[:len(events)-1]
					}
					err = h.in.Append(ctx, scope, events)
				})
				return err
			}
		}},
		{wrong: "another handle has a log of its own", fails: "events/handles", log: func(h *eventHooks) { h.apart = true },
			also: map[string]string{"events/handles-order": "there is no order that both have"}},
		{wrong: "some events of busy handles show late on another", fails: "events/handles-order", log: func(h *eventHooks) {
			fly := new(flight)
			busyEvents(h, fly)
			h.reopen = func(h *eventHooks) {
				h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
					return gathered(h.in.Batches(ctx, scope, after), func(all []attend.Batch) []attend.Batch {
						for i, b := range all {
							if fly.n.Load() > 1 && len(b.Events) > 1 {
								all[i].Events = slices.Delete(b.Events, 0, 1)
							}
						}
						return all
					})
				}
			}
		}},
		{wrong: "an id is kept twice where two handles append it at once", fails: "events/handles-order", log: func(h *eventHooks) {
			first := new(guarded[string, bool])
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				for _, e := range events {
					first.set(e.ID, true)
					defer first.set(e.ID, false)
				}
				time.Sleep(20 * time.Microsecond)
				return h.in.Append(ctx, scope, events)
			}
			h.reopen = func(h *eventHooks) {
				h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
					events = slices.Clone(events)
					for i, e := range events {
						if now, _ := first.get(e.ID); now {
							events[i].ID += again
						}
					}
					return h.in.Append(ctx, scope, events)
				}
			}
			showAgain(h)
		}},
		{wrong: "another handle goes by the producers where it finds several events at once", fails: "events/handles-order", log: func(h *eventHooks) {
			h.reopen = func(h *eventHooks) {
				editBatches(h, func(_ attend.Cursor, b *attend.Batch) {
					slices.SortStableFunc(b.Events, func(x, y attend.Event) int { return strings.Compare(y.ID[:1], x.ID[:1]) })
				})
			}
		}},
		{wrong: "a closed log can be read", fails: "events/closed", log: func(h *eventHooks) { h.alive = "Batches" }},

		{wrong: "a full batch does not tell of a gap", fails: "events/gap-foreign", log: func(h *eventHooks) {
			editBatches(h, func(_ attend.Cursor, b *attend.Batch) { b.Gap = b.Gap && len(b.Events) < 1000 })
		}},
		{wrong: "a gap needs events to be told", fails: "events/gap-empty", log: func(h *eventHooks) {
			h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
				return gathered(h.in.Batches(ctx, scope, after), func(all []attend.Batch) []attend.Batch {
					return slices.DeleteFunc(all, func(b attend.Batch) bool { return len(b.Events) == 0 })
				})
			}
		}},
		{wrong: "WaitEvents behind a foreign cursor blocks", fails: "events/gap-wait", hangs: true, log: func(h *eventHooks) {
			h.wait = func(ctx context.Context, scope attend.Scope, after attend.Cursor) error {
				if after != "" && !mine(h, after) {
					<-ctx.Done()
					return ctx.Err()
				}
				return h.in.WaitEvents(ctx, scope, after)
			}
		}},
		{wrong: "a read goes on in silence where events were trimmed", fails: "events/gap-trimmed", log: func(h *eventHooks) {
			editBatches(h, func(after attend.Cursor, b *attend.Batch) {
				if b.Gap && mine(h, after) {
					b.Gap = false
				}
			})
		}},
		{wrong: "the empty cursor of a trimmed log is a gap", fails: "events/gap-none", log: func(h *eventHooks) {
			editBatches(h, func(after attend.Cursor, b *attend.Batch) {
				b.Gap = b.Gap || after == "" && len(b.Events) > 0 && b.Events[0].ID != "first" && len(b.Events) == 20
			})
		}},
		{wrong: "an id is remembered when its event is gone", fails: "events/repeat-trimmed", log: func(h *eventHooks) {
			type key struct {
				scope attend.Scope
				id    string
			}
			seen := new(guarded[key, bool])
			h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
				if _, err := cleaned(events); err != nil {
					return h.in.Append(ctx, scope, events)
				}
				events = slices.DeleteFunc(slices.Clone(events), func(e attend.Event) bool {
					_, ok := seen.get(key{scope, e.ID})
					return ok
				})
				err := h.in.Append(ctx, scope, events)
				for _, e := range events {
					seen.set(key{scope, e.ID}, true)
				}
				return err
			}
		}},
	}
}

// cleaned is the place of the first invalid event, and what is wrong with it.
func cleaned(events []attend.Event) (int, error) {
	for i, e := range events {
		if _, err := e.Clean(); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// busyEvents counts appends, and draws them out a little.
func busyEvents(h *eventHooks, fly *flight) {
	h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) (err error) {
		fly.during(func() {
			time.Sleep(20 * time.Microsecond)
			err = h.in.Append(ctx, scope, events)
		})
		return err
	}
}

func lockBatches(h *eventHooks, leaks bool) {
	mu := new(sync.RWMutex)
	h.batches = func(ctx context.Context, scope attend.Scope, after attend.Cursor) iter.Seq2[attend.Batch, error] {
		return locked(mu, leaks, h.in.Batches(ctx, scope, after))
	}
	h.append = func(ctx context.Context, scope attend.Scope, events []attend.Event) error {
		mu.Lock()
		defer mu.Unlock()
		return h.in.Append(ctx, scope, events)
	}
}
