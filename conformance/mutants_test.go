package conformance_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
)

// A mutant is the reference store or event log with one promise broken.
type mutant struct {
	wrong string // what it does
	fails string // the case that catches it
	store func(*hooks)
	log   func(*eventHooks)
	hangs bool // the case catches it by a call that does not return
	// also names other cases that fail, and why they can't but fail.
	also map[string]string
	// alike names other crash cases that fail: each of them is about the whole.
	alike []string
}

func mutants() []mutant {
	return slices.Concat(scopeMutants(), dueMutants(), logMutants(), cursorMutants(), concurrentMutants(), crashMutants(), eventMutants())
}

func (m mutant) env() conformance.Env {
	if m.log != nil {
		return conformance.Env{
			EventLog:  func() attend.EventLog { return newWrongLog(attend.Retain{}, m.log) },
			Retaining: func(keep attend.Retain) attend.EventLog { return newWrongLog(keep, m.log) },
			ReopenLog: func(l attend.EventLog) attend.EventLog { return l.(*wrongEvents).reopen() },
		}
	}
	return conformance.Env{
		Store:  func() attend.ScopeStore { return newWrong(m.store) },
		Reopen: func(s attend.ScopeStore) attend.ScopeStore { return s.(*wrongStore).reopen() },
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

// many are the cases of many goroutines outside the concurrent suite.
var many = []string{"log/wait-closed", "events/wait-closed", "events/concurrent", "events/handles-order"}

func tryMutant(t *testing.T, m mutant) {
	if strings.HasPrefix(m.fails, "crash/") {
		tryCrashMutant(t, m)
		return
	}
	for _, c := range conformance.Cases() {
		if (c.Suite() == "events") != (m.log != nil) {
			continue
		}
		own := c.Name == m.fails
		if c.Suite() == "crash" && !own {
			continue // a whole engine stands on every promise at once
		}
		if _, ok := m.also[c.Name]; ok {
			continue
		}
		patience := time.Minute
		if own && m.hangs {
			patience = 400 * time.Millisecond
		}
		// A case of many goroutines may need luck to catch what is wrong. What
		// it finds is never an accident, so it may have a few tries.
		tries := 1
		if own && (c.Suite() == "concurrent" || slices.Contains(many, c.Name)) {
			tries = 10
		}
		var err error
		for range tries {
			if err = c.Try(t.Context(), patience, m.env()); err != nil {
				break
			}
		}
		switch {
		case own && err == nil:
			t.Errorf("%s passes a store where %s", c.Name, m.wrong)
		case !own && err != nil:
			t.Errorf("%s fails a store where %s: %v", c.Name, m.wrong, err)
		}
	}
}

// No case is without something that it catches.
func TestEachCaseHasAMutant(t *testing.T) {
	caught := make(map[string]bool)
	for _, m := range mutants() {
		caught[m.fails] = true
	}
	for _, c := range conformance.Cases() {
		if !caught[c.Name] {
			t.Errorf("no wrong store is caught by %s", c.Name)
		}
		delete(caught, c.Name)
	}
	for name := range caught {
		t.Errorf("a mutant names %s, which is no case", name)
	}
}

var update = flag.Bool("update", false, "rewrite the table of mutants in docs/conformance.md")

// The table in the documentation is made from the mutants.
func TestTableOfMutants(t *testing.T) {
	table := mutantTable()
	t.Log("\n" + table)
	name := filepath.Join("..", "docs", "conformance.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Skip("the documentation is not beside this module")
	}
	const begin, end = "<!-- mutants -->\n", "<!-- end -->\n"
	head, rest, ok := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", name)
	}
	want := slices.Concat(head, []byte(begin), []byte(table), []byte(end), tail)
	if bytes.Equal(page, want) {
		return
	}
	if !*update {
		t.Fatalf("%s is behind: run go test -run TestTableOfMutants -update", name)
	}
	if err := os.WriteFile(name, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

func mutantTable() string {
	var b strings.Builder
	b.WriteString("| rule | a store where … | fails |\n| --- | --- | --- |\n")
	for _, c := range conformance.Cases() {
		for _, m := range mutants() {
			if m.fails != c.Name {
				continue
			}
			fails := "`" + c.Name + "`"
			names := make([]string, 0, len(m.also))
			for name := range m.also {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				fails += fmt.Sprintf(", and `%s`: %s", name, m.also[name])
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Rule, m.wrong, fails)
		}
	}
	return b.String()
}
