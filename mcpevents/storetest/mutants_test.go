package storetest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpevents/storetest"
)

// A fault is what a wrong store does.
type fault string

const (
	loadUnknown       fault = "Load of an unknown key has an empty value"
	valueKept         fault = "a write that leaves the time leaves the value"
	valueOver         fault = "a shorter value is written over the beginning of a longer one"
	olderFits         fault = "any older version is good for a write"
	existsFits        fault = "a write that expects no record replaces one"
	nothingFits       fault = "a write makes a record whatever it expects"
	refusalMovesDue   fault = "a write that is not applied moves the time"
	versionsSorted    fault = "the versions of what was applied come first"
	versionsOff       fault = "the version that Write answers is not the record's"
	refusalStopsRest  fault = "a write that is not applied stops those behind it"
	refusalStopsAll   fault = "a write that is not applied undoes those before it"
	manyCut           fault = "a call applies a hundred writes at most"
	removalKeepsDue   fault = "what was removed is due"
	removalEmpties    fault = "a removal leaves an empty record"
	removalAnswers0   fault = "a removal is answered as not applied"
	removalFits       fault = "a removal does not look at the version"
	sameKeepsVersion  fault = "the same value and time leave the version"
	versionsAnew      fault = "versions begin anew after a removal"
	valueText         fault = "values are text"
	valueCut          fault = "values are cut"
	keysPatterns      fault = "_ in a key stands for any character"
	keysCut           fault = "keys are cut"
	sharesWritten     fault = "the store keeps the writer's memory"
	sharesLoaded      fault = "Load returns the store's memory"
	sharesBuffer      fault = "Load of a key fills the memory of the Load before it"
	dueLate           fault = "a record is due only after its time"
	dueByClock        fault = "Due asks a clock"
	dueByName         fault = "Due goes by name"
	madeDue           fault = "a record that is made without a time is due at once"
	dueStays          fault = "a write without a time leaves the old one"
	dueEarlier        fault = "a time moves to earlier alone"
	dueSeconds        fault = "times are kept in seconds"
	dueCut            fault = "Due ends after a thousand"
	dueClaims         fault = "Due yields a record once"
	dueRenews         fault = "Due changes the version"
	dueHolds          fault = "Due holds a lock while it yields"
	dueLeaks          fault = "Due keeps a connection when it is left early"
	dueGoesOn         fault = "Due goes on behind an error"
	dueSilent         fault = "Due ends without an error when its context does"
	dueAlone          fault = "one Due at a time works"
	gapInWrite        fault = "a write looks first and replaces later"
	gapInCreate       fault = "a write looks first and makes the record later"
	gapInGroup        fault = "a call of several looks first and writes later"
	gapInHandles      fault = "two handles do not see each other's writes under way"
	dueOfOwn          fault = "Due yields what this handle wrote"
	versionsOfHandles fault = "each handle counts versions by itself"
)

// A mutant is a wrong store and the case that catches it.
type mutant struct {
	fault fault
	fails string
	// also names other cases that fail, and why they can't but fail.
	also map[string]string
}

func mutants() []mutant {
	const race = "what is older at any time is older in a race, too"
	const later = "it is not due yet, by whatever distance"
	return []mutant{
		{loadUnknown, "load-unknown", nil},
		{valueKept, "write", nil},
		{valueOver, "write-whole", nil},
		{olderFits, "write-old", map[string]string{"concurrent-winner": race, "concurrent-groups": race, "handles-winner": race}},
		{existsFits, "write-exists", map[string]string{
			"concurrent-creator": race, "concurrent-groups": race, "handles-winner": race}},
		{nothingFits, "write-nothing", nil},
		{refusalMovesDue, "write-refused", nil},
		{versionsSorted, "write-versions", map[string]string{"concurrent-groups": "it counts what was answered"}},
		{versionsOff, "write-versions", nil},
		{refusalStopsRest, "write-each", nil},
		{refusalStopsAll, "write-each", nil},
		{manyCut, "write-many", nil},
		{removalKeepsDue, "remove", nil},
		{removalEmpties, "remove", nil},
		{removalAnswers0, "remove-answer", nil},
		{removalFits, "remove-old", nil},
		{sameKeepsVersion, "version-changes", nil},
		{versionsAnew, "version-removed", map[string]string{"handles-versions": "it removes as well"}},
		{valueText, "value-bytes", nil},
		{valueCut, "value-large", nil},
		{keysPatterns, "keys", nil},
		{keysCut, "keys", nil},
		{sharesWritten, "copies-written", nil},
		{sharesLoaded, "copies-loaded", nil},
		{sharesBuffer, "copies-kept", nil},
		{dueLate, "due", nil},
		{dueByClock, "due", map[string]string{"due-moves": later, "due-milliseconds": later}},
		{dueByName, "due-order", nil},
		{madeDue, "due-never", nil},
		{dueStays, "due-not-any-more", nil},
		{dueEarlier, "due-moves", nil},
		{dueSeconds, "due-milliseconds", nil},
		{dueCut, "due-many", nil},
		{dueClaims, "due-claims", nil},
		{dueRenews, "due-claims", map[string]string{"concurrent-methods": "others look between a load and a write"}},
		{dueHolds, "due-holds", nil},
		{dueLeaks, "due-left", nil},
		{dueGoesOn, "due-error", nil},
		{dueSilent, "due-error", nil},
		{gapInWrite, "concurrent-winner", nil},
		{gapInCreate, "concurrent-creator", nil},
		{gapInGroup, "concurrent-groups", nil},
		{dueAlone, "concurrent-methods", nil},
		{dueOfOwn, "handles-share", nil},
		{versionsOfHandles, "handles-versions", map[string]string{"handles-winner": "the version that was expected may come again"}},
		{gapInHandles, "handles-winner", nil},
	}
}

// Each wrong store fails the case that is for it, and no other.
func TestMutants(t *testing.T) {
	limit := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for _, m := range mutants() {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			tryMutant(t, m)
		})
	}
	wg.Wait()
}

func tryMutant(t *testing.T, m mutant) {
	env := storetest.Env{
		Store:  func() mcpevents.SubscriptionStore { return newWrong(m.fault) },
		Reopen: func(s mcpevents.SubscriptionStore) mcpevents.SubscriptionStore { return s.(*wrong).reopen() },
	}
	for _, c := range storetest.Cases() {
		if _, ok := m.also[c.Name]; ok {
			continue
		}
		own, patience := c.Name == m.fails, time.Minute
		if own && (m.fault == dueHolds || m.fault == dueLeaks) { // what does not return
			patience = 400 * time.Millisecond
		}
		err := c.Try(t.Context(), patience, env)
		switch {
		case own && err == nil:
			t.Errorf("%s passes a store where %s", c.Name, m.fault)
		case !own && err != nil:
			t.Errorf("%s fails a store where %s: %v", c.Name, m.fault, err)
		}
	}
}

// No case is without something that it catches, and a store without a fault passes.
func TestEachCaseHasAMutant(t *testing.T) {
	caught := map[string]bool{}
	for _, m := range mutants() {
		caught[m.fails] = true
	}
	for _, c := range storetest.Cases() {
		if !caught[c.Name] {
			t.Errorf("no wrong store is caught by %s", c.Name)
		}
		delete(caught, c.Name)
	}
	for name := range caught {
		t.Errorf("there is no case %s", name)
	}
	storetest.Run(t, storetest.Store{
		New: func(testing.TB) mcpevents.SubscriptionStore { return newWrong("") },
		Reopen: func(_ testing.TB, s mcpevents.SubscriptionStore) mcpevents.SubscriptionStore {
			return s.(*wrong).reopen()
		},
	})
}
