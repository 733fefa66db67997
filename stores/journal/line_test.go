package journal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/journal"
)

func batch(t testing.TB, id string, size int) *journal.Batch {
	t.Helper()
	b, err := journal.MakeBatch("ops", []attend.Event{{ID: id, Name: "n", Text: strings.Repeat("x", size)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Appends that come while one is committed share the next transaction, as far
// as its size goes, and its error; who has left the line is not in it.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l journal.Line
		var sizes []int // of the transactions, of which there is one at a time
		goOn := make(chan error)
		commit := func(take func() []*journal.Batch) error {
			n := len(take())
			if again := len(take()); again != n {
				t.Errorf("take = %d batches, then %d, want the same", n, again)
			}
			sizes = append(sizes, n)
			return <-goOn
		}
		var wg sync.WaitGroup
		appends := func(ctx context.Context, size int, want error) {
			b := batch(t, "e", size)
			wg.Go(func() {
				if err := l.Append(ctx, b, commit); !errors.Is(err, want) {
					t.Errorf("Append = %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		answer := func(err error) {
			goOn <- err
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		appends(t.Context(), 10, nil)
		appends(t.Context(), 10, errFault)
		appends(ctx, 10, context.Canceled)
		appends(t.Context(), 10, errFault)
		cancel()
		synctest.Wait()
		answer(nil)
		answer(errFault)
		appends(t.Context(), 10, nil)
		for range 3 {
			appends(t.Context(), 600_000, nil)
		}
		for range 3 {
			answer(nil)
		}
		wg.Wait()
		if want := []int{1, 2, 1, 2, 1}; !slices.Equal(sizes, want) {
			t.Errorf("transactions of %d batches, want %d", sizes, want)
		}
	})
}

// Who stops waiting once it was taken along hears how that went.
func TestLineTooLateToLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l journal.Line
		goOn := make(chan struct{})
		commit := func(take func() []*journal.Batch) error {
			take()
			<-goOn
			return nil
		}
		for range 10 { // either of the two may have the turn
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range 3 {
				with, b := ctx, batch(t, "e", 1)
				if i < 2 {
					with = t.Context()
				}
				wg.Go(func() {
					if err := l.Append(with, b, commit); err != nil {
						t.Errorf("Append of what is committed = %v", err)
					}
				})
				synctest.Wait()
			}
			goOn <- struct{}{}
			synctest.Wait()
			cancel()
			synctest.Wait()
			goOn <- struct{}{}
			wg.Wait()
		}
	})
}

// An error that comes before the batches are taken is its caller's alone.
func TestLineNotTaken(t *testing.T) {
	var l journal.Line
	refuse := func(func() []*journal.Batch) error { return errFault }
	if err := l.Append(t.Context(), batch(t, "a", 1), refuse); !errors.Is(err, errFault) {
		t.Errorf("Append = %v, want its error", err)
	}
	n := 0
	accept := func(take func() []*journal.Batch) error { n = len(take()); return nil }
	if err := l.Append(t.Context(), batch(t, "b", 1), accept); err != nil || n != 1 {
		t.Errorf("Append = %v of %d batches, want the one that has not left", err, n)
	}
}

func TestMakeBatch(t *testing.T) {
	_, err := journal.MakeBatch("ops", []attend.Event{{ID: "a", Name: "n"}, {}})
	if e, ok := errors.AsType[*attend.EventError](err); !ok || e.Index != 1 {
		t.Errorf("MakeBatch with a second event that has nothing = %v, want an error of event 1", err)
	}
}
