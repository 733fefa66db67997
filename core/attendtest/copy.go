package attendtest

import (
	"maps"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// The copies share no memory with what they are made from, and nil stays nil.

func copyAll[T any](from []T, one func(T) T) []T {
	to := slices.Clone(from)
	for i := range to {
		to[i] = one(to[i])
	}
	return to
}

func copyInput(in attend.JudgeInput) attend.JudgeInput {
	in.Window = copyWindow(in.Window)
	in.Routes = slices.Clone(in.Routes)
	in.Criteria = maps.Clone(in.Criteria)
	in.Predicates = maps.Clone(in.Predicates)
	in.Facts = slices.Clone(in.Facts)
	in.Images = copyAll(in.Images, func(i attend.Image) attend.Image {
		i.Data = slices.Clone(i.Data)
		return i
	})
	in.Recent = copyAll(in.Recent, func(v attend.Verdict) attend.Verdict {
		v.Judgment = copyJudgment(v.Judgment)
		return v
	})
	return in
}

func copyWindow(w attend.Window) attend.Window {
	w.Events = copyAll(w.Events, func(e attend.Event) attend.Event {
		e.Data = slices.Clone(e.Data)
		return e
	})
	return w
}

func copyJudgment(j attend.Judgment) attend.Judgment {
	j.Probabilities = maps.Clone(j.Probabilities)
	j.Predicates = maps.Clone(j.Predicates)
	return j
}

func copyDecision(d attend.Decision) attend.Decision {
	d.Window = copyWindow(d.Window)
	d.Judgment = copyJudgment(d.Judgment)
	return d
}

func copyLetter(l attend.DeadLetter) attend.DeadLetter {
	l.Window = copyWindow(l.Window)
	if l.Decision != nil {
		d := copyDecision(*l.Decision)
		l.Decision = &d
	}
	return l
}
