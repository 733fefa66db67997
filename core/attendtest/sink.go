package attendtest

import (
	"context"
	"sync"

	attend "github.com/attend-go/attend/core"
)

// A Sink is an [attend.Sink] that records what it is handed. The zero Sink takes
// every decision.
type Sink struct {
	// Handle answers each delivery that [Sink.Fail] does not fail: nil takes the
	// decision, [attend.Permanent] refuses just that one for good. It may block
	// until ctx ends. Nil: every decision is taken.
	Handle func(ctx context.Context, d attend.Decision) error

	r recorder[attend.Decision]
}

// Deliver records d and fails, or does what Handle says.
func (s *Sink) Deliver(ctx context.Context, d attend.Decision) error {
	return s.r.hand(ctx, d, copyDecision, s.Handle)
}

// Fail makes the next n deliveries fail with [ErrScripted], in place of what was
// left of an earlier call. 0: none.
func (s *Sink) Fail(n int) { s.r.fail(n) }

// Attempts returns every decision that the sink was handed, in order, as often
// as it was handed it; those that failed, or are with Handle now, included.
func (s *Sink) Attempts() []attend.Decision { return s.r.list(&s.r.attempts, copyDecision) }

// Delivered returns every decision that the sink took, in order. One that it
// took twice, as after a crash, is there twice.
func (s *Sink) Delivered() []attend.Decision { return s.r.list(&s.r.taken, copyDecision) }

// Letters is an [attend.LetterHandler] that records what it is handed. The zero
// Letters takes every dead letter.
type Letters struct {
	// Handle answers each letter that [Letters.Fail] does not fail: nil takes
	// it. It may block until ctx ends. Nil: every letter is taken.
	Handle func(ctx context.Context, l attend.DeadLetter) error

	r recorder[attend.DeadLetter]
}

// Letter records l and fails, or does what Handle says.
func (h *Letters) Letter(ctx context.Context, l attend.DeadLetter) error {
	return h.r.hand(ctx, l, copyLetter, h.Handle)
}

// Fail makes the next n letters fail with [ErrScripted], in place of what was
// left of an earlier call. 0: none.
func (h *Letters) Fail(n int) { h.r.fail(n) }

// Attempts returns every letter that the handler was handed, in order, as often
// as it was handed it; those that failed, or are with Handle now, included.
func (h *Letters) Attempts() []attend.DeadLetter { return h.r.list(&h.r.attempts, copyLetter) }

// Taken returns every letter that the handler took, in order. One that it took
// twice, as after a crash, is there twice.
func (h *Letters) Taken() []attend.DeadLetter { return h.r.list(&h.r.taken, copyLetter) }

// A recorder is what Sink and Letters have in common.
type recorder[T any] struct {
	mu              sync.Mutex
	failing         int
	attempts, taken []T
}

func (r *recorder[T]) hand(ctx context.Context, v T, one func(T) T, handle func(context.Context, T) error) error {
	r.mu.Lock()
	r.attempts = append(r.attempts, one(v))
	fail := r.failing > 0
	if fail {
		r.failing--
	}
	r.mu.Unlock()
	if fail {
		return ErrScripted
	}
	kept := one(v) // before handle sees it
	if handle != nil {
		if err := handle(ctx, v); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, kept)
	return nil
}

func (r *recorder[T]) fail(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = n
}

func (r *recorder[T]) list(of *[]T, one func(T) T) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return copyAll(*of, one)
}
