package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

func TestScript(t *testing.T) {
	s, err := readScript(strings.NewReader(`
		{"route":"ask","probabilities":{"ask":1,"skip":0},"predicates":{"angry":0.5},"confidence":0.25}
		{"error":"down"}
		{"error":"refused","permanent":true}
		{"error":"no key","account":true,"permanent":false}
		{"error":"slow","retryAfterMs":1500}
		{"route":"wait","error":null}
	`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (attend.Judgment, error) { return s.Judge(context.Background(), attend.JudgeInput{}) }

	want := attend.Judgment{
		Route: attend.RouteAsk, Probabilities: map[attend.Route]float64{attend.RouteAsk: 1, attend.RouteSkip: 0},
		Predicates: map[string]float64{"angry": 0.5}, Confidence: 0.25,
	}
	if got, err := ask(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Judge = %+v, %v, want %+v", got, err, want)
	}
	_, err = ask()
	if _, permanent := errors.AsType[*attend.PermanentError](err); err == nil || permanent {
		t.Errorf("Judge error %v, want one to try again", err)
	}
	_, err = ask()
	if e, ok := errors.AsType[*attend.PermanentError](err); !ok || e.Account {
		t.Errorf("Judge error %v, want a permanent one", err)
	}
	_, err = ask()
	if e, ok := errors.AsType[*attend.PermanentError](err); !ok || !e.Account {
		t.Errorf("Judge error %v, want one of the account", err)
	}
	_, err = ask()
	if e, ok := errors.AsType[*attend.RetryAfterError](err); !ok || e.After != 1500*time.Millisecond {
		t.Errorf("Judge error %v, want one to try again after 1.5 s", err)
	}
	for range 3 { // it stays on the last
		if got, err := ask(); err != nil || got.Route != attend.RouteWait {
			t.Errorf("Judge = %+v, %v, want wait", got, err)
		}
	}
}

func TestScriptRefuses(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", "there is no answer in it"},
		{"\n\n", "there is no answer in it"},
		{`{"route":"skip"}` + "\n\n" + `{"route":"sleep"}`, "line 3: route: want one of interrupt, queue, note, ask, skip or wait"},
		{`{}`, "line 1: route: want one of "},
		{`{"route":1}`, "line 1: route: want one of "},
		{`route: skip`, "line 1: line: want one JSON object"},
		{`null`, "line 1: line: want one JSON object"},
		{`{"route":"skip","Confidence":1}`, "line 1: Confidence: want no field of this name"},
		{`{"route":"skip","confidence":1.5}`, "line 1: confidence: want a number from 0 to 1"},
		{`{"route":"skip","confidence":"high"}`, "line 1: confidence: want a number from 0 to 1"},
		{`{"route":"skip","probabilities":[1]}`, "line 1: probabilities: want an object of routes and numbers"},
		{`{"route":"skip","probabilities":{"sleep":1}}`, "line 1: probabilities: want routes alone: interrupt, "},
		{`{"route":"skip","probabilities":{"skip":1,"ask":1.5}}`, "line 1: probabilities.ask: want a number from 0 to 1"},
		{`{"route":"skip","predicates":{"angry":-1}}`, "line 1: predicates.angry: want a number from 0 to 1"},
		{`{"route":"skip","predicates":1}`, "line 1: predicates: want an object of names and numbers"},
		{`{"error":"no","route":"skip"}`, "line 1: route: want no error beside it"},
		{`{"error":"no","predicates":{}}`, "line 1: predicates: want no error beside it"},
		{`{"error":""}`, "line 1: error: want a text"},
		{`{"error":7}`, "line 1: error: want a string"},
		{`{"error":"no","permanent":1}`, "line 1: permanent: want true or false"},
		{`{"error":"no","account":1}`, "line 1: account: want true or false"},
		{`{"error":"no","retryAfterMs":0.5}`, "line 1: retryAfterMs: want a whole number"},
		{`{"error":"no","retryAfterMs":-1}`, "line 1: retryAfterMs: want a whole number from 0 on"},
		{`{"route":"skip","permanent":true}`, "line 1: permanent: want an error beside it"},
		{`{"route":"skip","retryAfterMs":1}`, "line 1: retryAfterMs: want an error beside it"},
		{`{"error":"` + strings.Repeat("x", maxLine) + `"}`, "line 1: line: longer than 1048576 bytes"},
	} {
		if _, err := readScript(strings.NewReader(test.in)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("readScript(%.80q): %v, want %s", test.in, err, test.want)
		}
	}
}
