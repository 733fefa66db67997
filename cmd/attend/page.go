package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/report"
	attend "github.com/attend-go/attend/core"
)

// A pagePrinter prints as another does, and draws a page of it all.
type pagePrinter struct {
	printer
	file, title string
	report      report.Report
}

func (p *pagePrinter) step(s step) {
	p.printer.step(s)
	m := report.Mark{At: time.UnixMilli(s.At), Scope: attend.Scope(plain(string(s.Scope))), Route: s.Route, Reason: s.Reason, Events: s.Events}
	switch {
	case s.Step == stepDecision:
		m.Text = plain(headline(s.Decision.Window))
	case s.Step != stepVerdict || s.Route.Delivered():
		return
	}
	p.report.Add(m)
}

func (p *pagePrinter) table(t *table) error {
	if err := p.printer.table(t); err != nil {
		return err
	}
	s := report.Summary{
		Title: plain(p.title), Events: t.Events, Windows: sum(t.Windows), Decisions: sum(t.Decisions),
		Interruptions: t.Decisions[attend.RouteInterrupt], DeadLetters: sum(t.DeadLetters),
	}
	if t.From != 0 {
		s.From, s.To = time.UnixMilli(t.From), time.UnixMilli(t.To)
	}
	if t.Threshold != nil {
		s.Suggested, s.MaxPerHour = t.Threshold.Suggested, t.Threshold.MaxPerHour
		for _, c := range t.Threshold.Candidates {
			s.Candidates = append(s.Candidates, report.Candidate{Threshold: c.Threshold, PerHour: c.PerHour})
		}
	}
	return replaceFile(p.file, func(w io.Writer) error { return p.report.Write(w, s) })
}

// replaceFile writes a file whole or not at all: what was there stays until
// then.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
