package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// An activity is the data of an event.
type activity struct {
	What string `json:"what"`
	Text string `json:"text"`
}

// What happens, some time after the start.
type chapter struct {
	at time.Duration
	activity
}

var story = []chapter{
	{0, activity{"build", "build 41 has started"}},
	{100 * time.Millisecond, activity{"log", "compile: 214 packages"}},
	{200 * time.Millisecond, activity{"log", "vet: ok"}},
	{300 * time.Millisecond, activity{"log", "test: 1,312 passed"}},
	{400 * time.Millisecond, activity{"test", "TestSettle failed"}},
	{1200 * time.Millisecond, activity{"comment", "can you look at TestSettle?"}},
	{1600 * time.Millisecond, activity{"deploy", "build 40 is live"}},
}

// kindOf says what an event does to the window that it joins.
func kindOf(e attend.Event) attend.Kind {
	switch whatOf(e) {
	case "comment":
		return attend.KindFlush // somebody speaks: settle now
	case "test", "deploy":
		return attend.KindClosing // the end of something: settle soon
	}
	return attend.KindConsequence // output that waits for the end
}

func whatOf(e attend.Event) string {
	var a activity
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return ""
	}
	return a.What
}

// judge answers for the story in place of a model: it waits with a failure that
// nobody has asked about yet.
func judge(_ context.Context, in attend.JudgeInput) (attend.Judgment, error) {
	last := in.Window.Events[len(in.Window.Events)-1]
	switch {
	case in.Window.Reason == attend.ReasonFlush:
		return attend.Judgment{Route: attend.RouteInterrupt}, nil
	case whatOf(last) == "test" && slices.Contains(in.Routes, attend.RouteWait):
		return attend.Judgment{Route: attend.RouteWait}, nil
	default:
		return attend.Judgment{Route: attend.RouteNote}, nil
	}
}

// why explains a verdict of the judge.
func why(route attend.Route, events int, horizon time.Duration) string {
	switch route {
	case attend.RouteWait:
		return fmt.Sprintf("a failure that nobody asked about: hold these %d events for up to %v", events, horizon)
	case attend.RouteInterrupt:
		return "somebody asks: the agent is needed now"
	default:
		return "good to know, no need to answer"
	}
}
