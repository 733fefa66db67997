package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCE10BothSetsOfNumbers(t *testing.T) {
	for _, one := range []struct {
		code          int64
		message, data string
		want          Kind
	}{
		{-32602, "", ``, InvalidParams},
		{-32023, "", ``, NotFound}, {-32024, "x", ``, Forbidden}, {-32025, "", `{}`, ResourceExhausted},
		{-32026, "", ``, Unsupported}, {-32027, "", ``, CallbackEndpointError},
		{-32603, "", ``, Internal}, {-32601, "", ``, MethodNotFound},
		// The older ones, where the message says so.
		{-32011, "NotFound", ``, NotFound}, {-32011, "not found", ``, NotFound}, {-32011, "Event Not Found: x", ``, NotFound},
		{-32012, "Forbidden", ``, Forbidden}, {-32013, "RESOURCE_EXHAUSTED", ``, ResourceExhausted},
		{-32014, "Unsupported", ``, Unsupported}, {-32015, "CallbackEndpointError", ``, CallbackEndpointError},
		// Or the data.
		{-32011, "", `{"kind":"event"}`, NotFound}, {-32012, "", `{"reason":"x"}`, Forbidden}, {-32013, "", `{"limit":"streams"}`, ResourceExhausted},
		{-32014, "", `{"feature":"deliveryMode"}`, Unsupported}, {-32015, "", `{"reason":"timeout"}`, CallbackEndpointError},
		// And not otherwise.
		{-32011, "", ``, ""}, {-32012, "whatever", `{"kind":"event"}`, ""}, {-32013, "NotFound", `{"reason":"x"}`, ""},
		{-32014, "", `["feature"]`, ""}, {-32015, "", `"reason"`, ""}, {-32011, "Forbidden", `null`, ""},
		{-32000, "NotFound", ``, ""}, {0, "", ``, ""}, {-32016, "NotFound", `{"kind":"subscription"}`, ""},
	} {
		e := newAnswer(one.code, one.message, json.RawMessage(one.data))
		if e.Kind != one.want || e.Code != one.code {
			t.Errorf("newAnswer(%d, %q, %s) = %q (%d), want %q", one.code, one.message, one.data, e.Kind, e.Code, one.want)
		}
		if one.want != "" && !errors.Is(e, &Error{Kind: one.want}) {
			t.Errorf("errors.Is(%v, %s) = false", e, one.want)
		}
	}
}

func TestAnAnswerIsFitForALog(t *testing.T) {
	e := newAnswer(1, "a\nb\x00\x1b[31m\u202ec"+strings.Repeat("x", 1<<20), json.RawMessage(`{"x":"`+strings.Repeat("y", 1<<20)+`"}`))
	if len(e.Error()) > 300 || strings.ContainsAny(e.Error(), "\n\x00\x1b\u202e") || e.Data != nil {
		t.Errorf("%.100q, %d bytes of data", e.Error(), len(e.Data))
	}
	deep := strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100)
	if e := newAnswer(-32023, "", json.RawMessage(deep)); e.Data != nil || e.member("kind") != "" {
		t.Errorf("deep data is kept: %s", e.Data)
	}
}

func TestPermanent(t *testing.T) {
	for _, one := range []struct {
		err  error
		want bool
	}{
		{ErrForbidden, true}, {ErrInvalidParams, true}, {ErrNotFound, true}, {ErrUnsupported, true}, {ErrMethodNotFound, true},
		{&Error{Code: 7}, false}, {&Error{Code: -32000, Message: "busy"}, false}, {ErrNotOffered, true}, {ErrNoMode, true}, {ErrNoReplay, true},
		{&TerminatedError{&Error{Kind: ResourceExhausted}}, true}, {&StatusError{Status: 401}, true}, {&StatusError{Status: 403}, true},
		{fmt.Errorf("%w: %w", &StatusError{Status: 401}, &Error{Kind: Internal}), true}, {fmt.Errorf("%w: %w", &StatusError{Status: 503}, &Error{Kind: Internal}), false},
		{ErrResourceExhausted, false}, {ErrCallbackEndpoint, false}, {&Error{Kind: Internal}, false}, {&StatusError{Status: 404}, false}, {&StatusError{Status: 503}, false},
		{ErrClosed, false}, {ErrLost, false}, {ErrIdle, false}, {ErrOverflow, false}, {ErrEnded, false}, {ErrTimeout, false}, {ErrProtocol, false}, {ErrTooLarge, false},
	} {
		if got := Permanent(one.err); got != one.want {
			t.Errorf("Permanent(%v) = %v, want %v", one.err, got, one.want)
		}
	}
}

func TestAStatusIsKeptBesideTheAnswer(t *testing.T) {
	for _, one := range []struct {
		status    int
		body      string
		permanent bool
	}{
		{503, `{"code":-32000,"message":"busy"}`, false},
		{503, `{"code":-32603,"message":"broken"}`, false},
		{429, `{"code":-32025,"message":"ResourceExhausted"}`, false},
		{401, `{"code":-32603,"message":"who are you"}`, true},
		{400, `{"code":-32602,"message":"InvalidParams"}`, true},
	} {
		s := (&fakeWeb{serve: func(w http.ResponseWriter, _ *http.Request, m message) {
			w.Header().Set("Retry-After", "77")
			refuseJSON(w, one.status, m, one.body)
		}}).start(t, SessionConfig{})
		_, err := s.Poll(t.Context(), tick, PollQuery{})
		st, ok := errors.AsType[*StatusError](err)
		e, also := errors.AsType[*Error](err)
		if !ok || st.Status != one.status || st.RetryAfter != 77*time.Second || !also || e.Message == "" || Permanent(err) != one.permanent {
			t.Errorf("%d %s: %v, permanent = %v, want both errors and %v", one.status, one.body, err, Permanent(err), one.permanent)
		}
		if d := (&backoff{}).next(0, err); d < 77*time.Second {
			t.Errorf("%d %s: waits %v, want Retry-After", one.status, one.body, d)
		}
	}
}

func TestASessionIsForgottenWithA404(t *testing.T) {
	for body, forgotten := range map[string]bool{
		`{"code":-32001,"message":"Session not found"}`: true,
		`{"code":-32601,"message":"unknown method"}`:    false,
		`{"code":-32023,"message":"NotFound"}`:          false,
	} {
		s := (&fakeWeb{session: "s-1", serve: func(w http.ResponseWriter, _ *http.Request, m message) {
			refuseJSON(w, http.StatusNotFound, m, body)
		}}).start(t, SessionConfig{ProtocolVersion: "2025-11-25"})
		if _, err := s.Poll(t.Context(), tick, PollQuery{}); errors.Is(err, ErrClosed) != forgotten || (s.Err() != nil) != forgotten {
			t.Errorf("%s: %v, session %v, want forgotten = %v", body, err, s.Err(), forgotten)
		}
	}
}

func TestDataThatIsNullIsNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, s := (&fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
			if m.Method == "events/stream" {
				p.refuse(m, `{"code":-32026,"message":"Unsupported","data":null}`)
				return
			}
			p.result(m, `{"events":[`+polled("e1")+`],"cursor":"c1"}`)
		}}).connect(t, SessionConfig{})
		if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); idsOf(got) != "e1" || err != nil {
			t.Errorf("%v, %v, want the events by polls", got, err)
		}
	})
}
