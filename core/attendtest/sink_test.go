package attendtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
)

var (
	_ attend.Sink          = (*attendtest.Sink)(nil)
	_ attend.LetterHandler = (*attendtest.Letters)(nil)
)

func decision(id attend.DecisionID) attend.Decision {
	return attend.Decision{
		ID:       id,
		Window:   attend.Window{Scope: "ops/db", Events: []attend.Event{{ID: "1", Data: json.RawMessage(`[1]`)}}},
		Judgment: attend.Judgment{Route: attend.RouteQueue, Probabilities: map[attend.Route]float64{attend.RouteQueue: 1}},
	}
}

func decisionIDs(list []attend.Decision) []attend.DecisionID {
	ids := []attend.DecisionID{}
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

func checkIDs(t *testing.T, what string, got []attend.Decision, want ...attend.DecisionID) {
	t.Helper()
	if ids := decisionIDs(got); !reflect.DeepEqual(ids, append([]attend.DecisionID{}, want...)) {
		t.Errorf("%s = %q, want %q", what, ids, want)
	}
}

func TestSinkFails(t *testing.T) {
	var sink attendtest.Sink
	checkIDs(t, "Attempts() of a new sink", sink.Attempts())
	sink.Fail(2)
	for i, want := range []error{attendtest.ErrScripted, attendtest.ErrScripted, nil, nil} {
		err := sink.Deliver(t.Context(), decision(attend.DecisionID("abcd"[i:i+1])))
		if !errors.Is(err, want) {
			t.Errorf("delivery %d = %v, want %v", i, err, want)
		}
		if _, ok := errors.AsType[*attend.PermanentError](err); ok {
			t.Errorf("delivery %d = %v, want no permanent error", i, err)
		}
	}
	checkIDs(t, "Attempts()", sink.Attempts(), "a", "b", "c", "d")
	checkIDs(t, "Delivered()", sink.Delivered(), "c", "d")

	sink.Fail(5)
	sink.Fail(0)
	if err := sink.Deliver(t.Context(), decision("d")); err != nil {
		t.Errorf("Deliver after Fail(0) = %v, want nil", err)
	}
	checkIDs(t, "Delivered() with one taken twice", sink.Delivered(), "c", "d", "d")
}

func TestSinkHandle(t *testing.T) {
	refused := errors.New("the conversation is gone")
	var asked []attend.DecisionID
	sink := &attendtest.Sink{Handle: func(_ context.Context, d attend.Decision) error {
		asked = append(asked, d.ID)
		if d.ID == "b" {
			return attend.Permanent(refused)
		}
		return nil
	}}
	sink.Fail(1)
	for _, test := range []struct {
		id        attend.DecisionID
		is        error
		permanent bool
	}{
		{"a", attendtest.ErrScripted, false},
		{"b", refused, true},
		{"c", nil, false},
		{"b", refused, true},
	} {
		err := sink.Deliver(t.Context(), decision(test.id))
		_, permanent := errors.AsType[*attend.PermanentError](err)
		if !errors.Is(err, test.is) || permanent != test.permanent {
			t.Errorf("Deliver(%s) = %v, permanent %v, want %v, %v", test.id, err, permanent, test.is, test.permanent)
		}
	}
	checkIDs(t, "Attempts()", sink.Attempts(), "a", "b", "c", "b")
	checkIDs(t, "Delivered()", sink.Delivered(), "c")
	if want := []attend.DecisionID{"b", "c", "b"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("Handle was asked for %q, want %q", asked, want)
	}
}

func TestSinkHandleBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &attendtest.Sink{Handle: func(ctx context.Context, _ attend.Decision) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- sink.Deliver(ctx, decision("a")) }()
		synctest.Wait()
		checkIDs(t, "Attempts() under way", sink.Attempts(), "a")
		checkIDs(t, "Delivered() under way", sink.Delivered())
		time.Sleep(10 * time.Second)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Deliver = %v, want the context's error", err)
		}
		checkIDs(t, "Delivered()", sink.Delivered())
	})
}

func TestSinkKeepsCopies(t *testing.T) {
	spoil := func(d attend.Decision) {
		d.Window.Events[0].Data[1] = '2'
		d.Window.Events[0].ID = "spoilt"
		d.Probabilities[attend.RouteQueue] = 0
	}
	sink := &attendtest.Sink{Handle: func(_ context.Context, d attend.Decision) error {
		spoil(d)
		return nil
	}}
	sink.Deliver(t.Context(), decision("a"))
	want := []attend.Decision{decision("a")}
	for range 2 {
		attempts, delivered := sink.Attempts(), sink.Delivered()
		if !reflect.DeepEqual(attempts, want) || !reflect.DeepEqual(delivered, want) {
			t.Errorf("Attempts() = %+v, Delivered() = %+v, want %+v", attempts, delivered, want)
		}
		spoil(attempts[0])
		spoil(delivered[0])
	}
}

func TestSinkFromManyGoroutines(t *testing.T) {
	var sink attendtest.Sink
	sink.Fail(20)
	var mu sync.Mutex
	failed := 0
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			err := sink.Deliver(t.Context(), decision("a"))
			sink.Delivered()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
			}
		})
	}
	wg.Wait()
	if a, d := len(sink.Attempts()), len(sink.Delivered()); failed != 20 || a != 50 || d != 30 {
		t.Errorf("%d failed, %d attempts, %d delivered, want 20, 50, 30", failed, a, d)
	}
}

func TestLetters(t *testing.T) {
	letter := func(id attend.DecisionID) attend.DeadLetter {
		d := decision(id)
		return attend.DeadLetter{ID: id, Stage: attend.StageSink, Message: "gone", Attempts: 4, Window: d.Window, Decision: &d}
	}
	busy := errors.New("busy")
	letters := &attendtest.Letters{Handle: func(_ context.Context, l attend.DeadLetter) error {
		if l.ID == "b" {
			return busy
		}
		l.Decision.Window.Events[0].ID = "spoilt"
		return nil
	}}
	letters.Fail(1)
	for i, test := range []struct {
		id   attend.DecisionID
		want error
	}{{"a", attendtest.ErrScripted}, {"a", nil}, {"b", busy}} {
		if err := letters.Letter(t.Context(), letter(test.id)); !errors.Is(err, test.want) {
			t.Errorf("letter %d = %v, want %v", i, err, test.want)
		}
	}
	if got, want := letters.Attempts(), []attend.DeadLetter{letter("a"), letter("a"), letter("b")}; !reflect.DeepEqual(got, want) {
		t.Errorf("Attempts() = %+v, want %+v", got, want)
	}
	if got, want := letters.Taken(), []attend.DeadLetter{letter("a")}; !reflect.DeepEqual(got, want) {
		t.Errorf("Taken() = %+v, want %+v", got, want)
	}

	var zero attendtest.Letters
	if err := zero.Letter(t.Context(), attend.DeadLetter{ID: "a"}); err != nil || len(zero.Taken()) != 1 {
		t.Errorf("Letter of the zero Letters = %v with %d taken, want it taken", err, len(zero.Taken()))
	}
}
