package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// pace follows by polls and returns when each poll came, since the start.
func pace(t *testing.T, f FollowConfig, d time.Duration, results ...string) ([]time.Duration, []Batch, error) {
	t.Helper()
	start := time.Now()
	var at []time.Duration
	answer := pollOf(results...)
	_, s := (&fakeServer{list: listOf(pollType), serve: func(p *fakePipe, m message) {
		if m.Method == "events/poll" {
			at = append(at, time.Since(start))
		}
		answer(p, m)
	}}).connect(t, SessionConfig{})
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	got, err := collect(s.Follow(ctx, tick, f), -1)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Follow ended with %v", err)
	}
	return at, got, err
}

func TestCE19MoreIsPolledForAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		at, got, _ := pace(t, FollowConfig{}, 10*time.Second,
			`{"events":[`+polled("e1")+`],"cursor":"c1","hasMore":true,"nextPollMs":60000}`,
			`{"events":[`+polled("e2")+`],"cursor":"c2","hasMore":true,"nextPollMs":60000}`,
			`{"events":[`+polled("e3")+`],"cursor":"c3","hasMore":false,"nextPollMs":60000}`)
		if len(at) != 3 || at[2] != 0 || idsOf(got) != "e1 e2 e3" {
			t.Errorf("polls at %v, events %s", at, idsOf(got))
		}
	})
}

func TestCE20DrainingHasAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T) { // a cursor that does not move
		at, _, _ := pace(t, FollowConfig{}, 2500*time.Millisecond, `{"events":[],"cursor":"c1","hasMore":true,"nextPollMs":0}`)
		want := "[0s 0s 1s 2s]" // the first one moved it
		if fmt.Sprint(at) != want {
			t.Errorf("polls at %v, want %s", at, want)
		}
	})
	bubble(t, func(t *testing.T) { // a hundred rounds
		results := []string{}
		for i := range 1000 {
			results = append(results, fmt.Sprintf(`{"events":[],"cursor":"c%d","hasMore":true}`, i))
		}
		at, _, _ := pace(t, FollowConfig{PollFloor: 3 * time.Second}, 4*time.Second, results...)
		if len(at) != 200 || at[99] != 0 || at[100] != 3*time.Second {
			t.Errorf("%d polls, want 100 at once and 100 after 3s", len(at))
		}
	})
}

func TestCE21AndCE22ThePaceOfPolls(t *testing.T) {
	for _, one := range []struct {
		result string
		f      FollowConfig
		want   time.Duration
	}{
		{`{"events":[],"cursor":"c","nextPollMs":7000}`, FollowConfig{}, 7 * time.Second},
		{`{"events":[],"cursor":"c","hasMore":false,"nextPollMs":7000.0}`, FollowConfig{}, 7 * time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":0}`, FollowConfig{}, time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":5}`, FollowConfig{PollFloor: 2 * time.Second}, 2 * time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":-5}`, FollowConfig{}, time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":"soon"}`, FollowConfig{}, time.Second},
		{`{"events":[],"cursor":"c"}`, FollowConfig{}, 10 * time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":null}`, FollowConfig{PollInterval: 4 * time.Second}, 4 * time.Second},
		{`{"events":[],"cursor":"c","nextPollMs":1e300}`, FollowConfig{}, 24 * time.Hour},
		{`{"cursor":"c"}`, FollowConfig{}, 10 * time.Second},
	} {
		bubble(t, func(t *testing.T) {
			at, got, _ := pace(t, one.f, one.want*3-1, one.result)
			if len(at) != 3 || at[1] != one.want || at[2] != 2*one.want || got[0].Truncated {
				t.Errorf("%s: polls at %v, want every %v", one.result, at, one.want)
			}
		})
	}
}

func TestCE17AGapInAPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		at, got, _ := pace(t, FollowConfig{Cursor: "old", MaxAge: time.Hour}, time.Second/2, `{"events":[`+polled("e1")+`],"cursor":"c1","truncated":true}`)
		if len(at) != 1 || len(got) != 1 || !got[0].Truncated || got[0].Cursor != "c1" || idsOf(got) != "e1" {
			t.Errorf("%v", got)
		}
	})
}

func TestPollSendsWhatItIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, s := (&fakeServer{serve: pollOf(`{"events":[]}`)}).connect(t, SessionConfig{})
		if _, err := s.Poll(t.Context(), tick, PollQuery{Cursor: "c", MaxAge: 90 * time.Second, MaxEvents: 7}); err != nil {
			t.Fatal(err)
		}
		m := p.messages("events/poll")[0]
		if m.param("cursor") != "c" || m.param("maxAgeMs") != 90000.0 || m.param("maxEvents") != 7.0 || string(m.Params["arguments"]) != "{}" || m.param("name") != "tick" {
			t.Errorf("params %v", m.Params)
		}
		if _, err := s.Poll(t.Context(), Subscription{Name: "tick", Arguments: []byte(`[]`)}, PollQuery{}); err == nil || len(p.messages("events/poll")) != 1 {
			t.Errorf("arguments that are no object: %v", err)
		}
	})
}

func TestAPollThatIsRefusedEndsTheFollower(t *testing.T) {
	for refusal, want := range map[string]error{
		`{"code":-32024,"message":"Forbidden"}`:                                                              ErrForbidden,
		`{"code":-32023,"message":"NotFound","data":{"kind":"event"}}`:                                       ErrNotFound,
		`{"code":-32025,"message":"ResourceExhausted","data":{"limit":"pollRate"}}`:                          ErrResourceExhausted,
		`{"code":-32603,"message":"x"}`:                                                                      &Error{Kind: Internal},
		`{"code":-32026,"message":"Unsupported","data":{"feature":"deliveryMode","value":"poll"}}`:           ErrUnsupported,
		`{"code":-32026,"message":"Unsupported","data":{"feature":"inputSchema","reason":"schema_changed"}}`: ErrUnsupported,
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{list: listOf(pollType), serve: pollOf("error" + refusal)}).connect(t, SessionConfig{})
			if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); !errors.Is(err, want) {
				t.Errorf("%s: %v, %v, want %v", refusal, got, err, want)
			}
		})
	}
}
