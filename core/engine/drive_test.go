package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
)

var driveStart = time.UnixMilli(1_700_000_000_000)

func newDrive(t *testing.T, cfg engine.Config) *engine.Drive {
	t.Helper()
	d, err := engine.NewDrive(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drivePush pushes one event at a time after driveStart.
func drivePush(t *testing.T, d *engine.Drive, at time.Duration, id, name string) engine.Receipt {
	t.Helper()
	r, err := d.Push(t.Context(), driveStart.Add(at), "repo", attend.Event{ID: id, Name: name})
	if err != nil {
		t.Fatalf("Push(%s) = %v, want nil", id, err)
	}
	return r
}

func driveAdvance(t *testing.T, d *engine.Drive, to time.Duration) {
	t.Helper()
	if err := d.Advance(t.Context(), driveStart.Add(to)); err != nil {
		t.Fatalf("Advance(%v) = %v, want nil", to, err)
	}
}

// told is the events and the route of each decision, in order.
func told(list []attend.Decision) []string {
	out := []string{}
	for _, d := range list {
		s := string(d.Route)
		for _, e := range d.Window.Events {
			s += " " + e.ID
		}
		out = append(out, s)
	}
	return out
}

func checkTold(t *testing.T, what string, list []attend.Decision, want ...string) {
	t.Helper()
	if got := told(list); !reflect.DeepEqual(got, append([]string{}, want...)) {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

// A process finds out what another one has written, also where its own input
// changes nothing in what it knows.
func TestDriveBesideAnotherProcess(t *testing.T) {
	cfg := config(route(attend.RouteNote))
	sink := cfg.Sink.(*attendtest.Sink)
	a, b := newDrive(t, cfg), newDrive(t, cfg)
	drivePush(t, a, 0, "hi", "flush.chat")
	checkTold(t, "Delivered()", sink.Delivered(), "note hi")

	drivePush(t, b, time.Second, "log", "consequence.line")
	if err := a.Flush(t.Context(), driveStart.Add(2*time.Second), "repo"); err != nil {
		t.Fatal(err)
	}
	checkTold(t, "Delivered() after a Flush of what another process brought", sink.Delivered(), "note hi", "note log")

	if err := cfg.Store.Remove(t.Context(), "repo"); err != nil {
		t.Fatal(err)
	}
	want := engine.Receipt{New: 1}
	if r := drivePush(t, a, 3*time.Second, "hi", "flush.chat"); r != want {
		t.Errorf("Push of what went with a removed scope = %+v, want %+v", r, want)
	}
	checkTold(t, "Delivered() after Remove", sink.Delivered(), "note hi", "note log", "note hi")
}

// Resume finds what is due in the store, though the process knew the scope when
// nothing was.
func TestDriveResumesWhatItKnew(t *testing.T) {
	cfg := config()
	sink := cfg.Sink.(*attendtest.Sink)
	a, b := newDrive(t, cfg), newDrive(t, cfg)
	drivePush(t, a, 0, "hi", "flush.chat")
	drivePush(t, b, time.Second, "done", "closing.build")
	driveAdvance(t, a, time.Minute)
	checkTold(t, "Delivered() before Resume", sink.Delivered(), "queue hi")
	if err := a.Resume(t.Context(), driveStart.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	driveAdvance(t, a, time.Minute)
	checkTold(t, "Delivered() after Resume", sink.Delivered(), "queue hi", "queue done")
}

// E29, E44: the receipt of a push whose answer was lost is that of the try that
// landed, and its effects happen once.
func TestDriveAnswerLost(t *testing.T) {
	for n := 1; n <= 3; n++ {
		cfg := config()
		cfg.Store = &attendtest.CrashStore{Store: memory.New(), At: n, Fault: attendtest.FaultLost}
		d := newDrive(t, cfg)
		want := engine.Receipt{New: 2, Duplicates: 1}
		r, err := d.Push(t.Context(), driveStart, "repo", []attend.Event{
			{ID: "1", Name: "flush.chat"}, {ID: "2", Name: "flush.chat"}, {ID: "1", Name: "flush.chat"},
		}...)
		if r != want || err != nil {
			t.Errorf("answer %d lost: Push = %+v, %v, want %+v", n, r, err, want)
		}
		checkTold(t, fmt.Sprintf("answer %d lost: Attempts()", n), cfg.Sink.(*attendtest.Sink).Attempts(), "queue 1 2")
		if calls := len(cfg.Judge.(*attendtest.Judge).Calls()); calls != 1 {
			t.Errorf("answer %d lost: judged %d times, want 1", n, calls)
		}
	}
}

// After a store that failed for long, what is due is still to be done; and what
// was committed before the failure is told by the receipt.
func TestDriveStoreFails(t *testing.T) {
	cfg := config()
	down := false
	refused := errors.New("no disk")
	cfg.Store = &spy{ScopeStore: memory.New(), refuse: func(int, []attend.Write) error {
		if down {
			return refused
		}
		return nil
	}}
	goDown := true
	cfg.Judge = attend.JudgeFunc(func(context.Context, attend.JudgeInput) (attend.Judgment, error) {
		down = goDown
		return attend.Judgment{Route: attend.RouteAsk}, nil
	})
	d := newDrive(t, cfg)
	r, err := d.Push(t.Context(), driveStart, "repo", attend.Event{ID: "1", Name: "flush.chat"})
	if want := (engine.Receipt{New: 1}); r != want || !errors.Is(err, refused) {
		t.Errorf("Push = %+v, %v, want %+v and the store's error", r, err, want)
	}
	r, err = d.Push(t.Context(), driveStart, "repo", attend.Event{ID: "2", Name: "context.said"})
	if r != (engine.Receipt{}) || !errors.Is(err, refused) {
		t.Errorf("Push while the store is down = %+v, %v, want the store's error alone", r, err)
	}
	if err := d.Advance(t.Context(), driveStart.Add(time.Hour)); !errors.Is(err, refused) {
		t.Errorf("Advance while the store is down = %v, want the store's error", err)
	}
	down, goDown = false, false
	driveAdvance(t, d, time.Hour)
	checkTold(t, "Delivered()", cfg.Sink.(*attendtest.Sink).Delivered(), "ask 1")
}

// E35: when ctx ends while work is under way, what has no answer is given back.
func TestDriveGivesBack(t *testing.T) {
	for _, test := range []struct {
		name  string
		lane  string // where ctx ends
		judge []attendtest.Answer
	}{
		{"a judge call", "judge", nil},
		{"a delivery", "sink", nil},
		{"a dead letter", "letter", []attendtest.Answer{attendtest.FailPermanently()}},
	} {
		cfg := config(test.judge...)
		ctx, cancel := context.WithCancel(t.Context())
		end := func(lane string) error {
			if lane == test.lane && ctx.Err() == nil {
				cancel()
				return context.Canceled
			}
			return nil
		}
		script := cfg.Judge.(*attendtest.Judge)
		cfg.Judge = attend.JudgeFunc(func(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			if err := end("judge"); err != nil {
				return attend.Judgment{}, err
			}
			return script.Judge(ctx, in)
		})
		sink := &attendtest.Sink{Handle: func(context.Context, attend.Decision) error { return end("sink") }}
		letters := &attendtest.Letters{Handle: func(context.Context, attend.DeadLetter) error { return end("letter") }}
		cfg.Sink, cfg.DeadLetter = sink, letters

		d := newDrive(t, cfg)
		if _, err := d.Push(ctx, driveStart, "repo", attend.Event{ID: "hi", Name: "flush.chat"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Push = %v, want context.Canceled", test.name, err)
		}
		s, err := d.State(t.Context(), "repo")
		if err != nil {
			t.Fatal(err)
		}
		if w := s.Work(driveStart); w.Judge+w.Decision+w.Letter == 0 {
			t.Errorf("%s: nothing to claim right afterwards, want what was given back", test.name)
		}
		next := newDrive(t, cfg)
		if err := next.Resume(t.Context(), driveStart); err != nil {
			t.Fatal(err)
		}
		driveAdvance(t, next, 0)
		if n := len(sink.Delivered()) + len(letters.Taken()); n != 1 {
			t.Errorf("%s: the next process delivered or buried %d, want 1 at once", test.name, n)
		}
	}
}

// An event that names a source is none that is pushed.
func TestDrivePushRefuses(t *testing.T) {
	d := newDrive(t, config())
	_, err := d.Push(t.Context(), driveStart, "repo", attend.Event{ID: "1", Name: "flush.x"}, attend.Event{ID: "2", Name: "flush.x", Source: "feed"})
	if e, ok := errors.AsType[*attend.EventError](err); !ok || e.Index != 1 || !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("Push of an event with a source = %v, want an EventError of place 1", err)
	}
}
