package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
)

// A provider is a judge whose account can be at fault.
type provider struct {
	mu      sync.Mutex
	begun   time.Time
	takes   time.Duration
	err     error
	calls   []string
	at      []time.Duration
	running int
	most    int // at a time, since the last set
}

func (p *provider) Judge(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	p.mu.Lock()
	p.calls = append(p.calls, fmt.Sprintf("%s waits %d", in.Window.Scope, in.Window.Waits))
	p.at = append(p.at, time.Since(p.begun))
	p.running++
	p.most = max(p.most, p.running)
	takes := p.takes
	p.mu.Unlock()
	time.Sleep(takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	if p.err != nil {
		return attend.Judgment{}, p.err
	}
	return attend.Judgment{Route: attend.RouteQueue}, nil
}

func (p *provider) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.most, p.calls, p.at, p.begun = err, 0, nil, nil, time.Now()
}

func (p *provider) seen() (calls []string, at []time.Duration, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls), slices.Clone(p.at), p.most
}

var errUnpaid = attend.PermanentAccount(errors.New("the bill is unpaid"))

// E16, J3: while the account fails there are no calls but one probe at a time,
// with backoff; it is logged once, loudly, and told by AccountError; windows
// keep their place in their slots, without an attempt.
func TestE16AnAccountFailureOpensTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begun: time.Now(), takes: 10 * time.Millisecond, err: errUnpaid}
		lines := new(logLines)
		cfg := config()
		cfg.Judge, cfg.Logger = p, slog.New(lines)
		f := start(t, cfg)
		if err := f.AccountError(); err != nil {
			t.Errorf("AccountError() = %v, want nil before any call", err)
		}
		push(t, f.Engine, "s-0", "a", "flush.x")
		sleep(20 * time.Millisecond)
		if err := f.AccountError(); !errors.Is(err, errUnpaid) {
			t.Errorf("AccountError() = %v, want the failure", err)
		}
		for i := range 50 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i+1)), "a", "closing.x")
		}
		sleep(5 * time.Minute)
		_, at, most := p.seen()
		if most != 1 {
			t.Errorf("%d calls at a time, want one probe", most)
		}
		// Probes after 1, 4, 16 and then 60 s each.
		want := []time.Duration{0, 1, 5, 21, 81, 141, 201, 261}
		for i, d := range at {
			if i >= len(want) || d < want[i]*time.Second || d > want[i]*time.Second+200*time.Millisecond {
				t.Fatalf("calls at %v, want some %v s", at, want)
			}
		}
		if len(at) != len(want) {
			t.Errorf("calls at %v, want %d of them", at, len(want))
		}
		loud := 0
		for _, l := range lines.all() {
			if strings.HasPrefix(l, "ERROR") {
				loud++
			}
		}
		if loud != 1 {
			t.Errorf("%d loud lines %v, want one", loud, lines.all())
		}
		for i := range 51 {
			s, _ := f.State(t.Context(), attend.Scope(fmt.Sprint("s-", i)))
			if slot, ok := s.Slot(); !ok || slot.Attempts != 0 {
				t.Errorf("s-%d has slot %+v, want its window in it and no attempt", i, slot)
			}
		}

		// It works again: all go on.
		p.set(nil)
		sleep(2 * time.Minute)
		calls, _, most := p.seen()
		if len(calls) != 51 || most < 2 {
			t.Errorf("%d calls, %d at a time, want all 51, and no longer one by one", len(calls), most)
		}
		for _, c := range calls {
			if !strings.HasSuffix(c, " waits 0") {
				t.Errorf("judged %s, want no wait counted", c)
			}
		}
		if err := f.AccountError(); err != nil {
			t.Errorf("AccountError() = %v, want nil again", err)
		}
		if n := len(f.sink.Delivered()); n != 51 {
			t.Errorf("%d delivered, want 51", n)
		}
		if n := len(f.letters.Attempts()); n != 0 {
			t.Errorf("%d dead letters, want none", n)
		}
	})
}

// Many calls that were under way fail together: that is one failure of the
// account, and the first probe comes after a second.
func TestE16CallsThatFailTogetherAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begun: time.Now(), takes: 100 * time.Millisecond, err: errUnpaid}
		cfg := config()
		cfg.Judge = p
		f := start(t, cfg)
		pushTogether(t, f.Engine, 40, one("flush.x"))
		sleep(500 * time.Millisecond)
		p.set(nil)
		sleep(2 * time.Second)
		if calls, _, _ := p.seen(); len(calls) != 40 {
			t.Errorf("%d calls within 2s of the account's working again, want 40", len(calls))
		}
	})
}

// While a probe is under way there is no second one, though calls from before
// come home.
func TestE16OneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		var mu sync.Mutex
		var at []time.Duration
		begun := time.Now()
		cfg.Judge = attend.JudgeFunc(func(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
			mu.Lock()
			at = append(at, time.Since(begun))
			n := len(at)
			mu.Unlock()
			switch n {
			case 1: // under way since before the failure
				time.Sleep(3 * time.Second)
				return attend.Judgment{}, errDown
			case 2:
				return attend.Judgment{}, errUnpaid
			default: // probes are slow
				time.Sleep(10 * time.Second)
				return attend.Judgment{}, errUnpaid
			}
		})
		f := start(t, cfg)
		for i := range 5 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", "flush.x")
			if i == 1 {
				sleep(100 * time.Millisecond)
			}
		}
		sleep(9 * time.Second)
		mu.Lock()
		if len(at) != 3 {
			t.Errorf("calls at %v, want two at first and one probe at 1s", at)
		}
		mu.Unlock()
		sleep(30 * time.Second)
	})
}

// An error that says nothing about the account does not close the breaker.
func TestE16APlainErrorIsNoProofThatTheAccountWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begun: time.Now(), err: errUnpaid}
		cfg := config()
		cfg.Judge = p
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		synctest.Wait()
		p.set(errDown)
		sleep(2 * time.Second)
		if err := f.AccountError(); err == nil {
			t.Error("AccountError() = nil after a probe that failed for another reason, want the failure")
		}
		// One that refuses a window for good has worked on it.
		p.set(attend.Permanent(errDown))
		sleep(time.Minute)
		if err := f.AccountError(); err != nil {
			t.Errorf("AccountError() = %v after an answer, want nil", err)
		}
	})
}

// E16: once AccountGrace has passed since a window's first such failure it is a
// dead letter.
func TestE16TheAccountGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{begun: time.Now(), err: errUnpaid}
		cfg := config()
		cfg.Judge, cfg.AccountGrace = p, 10*time.Minute
		f := start(t, cfg)
		push(t, f.Engine, "repo", "a", "flush.x")
		sleep(10*time.Minute - time.Second)
		if n := len(f.letters.Taken()); n != 0 {
			t.Errorf("%d dead letters within the grace, want 0", n)
		}
		sleep(2 * time.Minute)
		got := f.letters.Taken()
		if len(got) != 1 || got[0].Stage != attend.StageJudge || got[0].Message != "the bill is unpaid" {
			t.Errorf("dead letters %+v, want one of stage judge", got)
		}
	})
}

// The breaker keeps pure judges no less: nothing of it hangs after Run.
func TestE16RunEndsWhileTheBreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(attendtest.FailAccount(), attendtest.FailAccount(), route(attend.RouteQueue))
		f := start(t, cfg)
		for i := range 10 {
			push(t, f.Engine, attend.Scope(fmt.Sprint("s-", i)), "a", "flush.x")
		}
		sleep(3 * time.Second)
		f.stop()
		sleep(10 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := len(f.sink.Delivered()); n != 10 {
			t.Errorf("%d delivered by the second Run, want 10", n)
		}
	})
}
