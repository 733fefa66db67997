package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// replaceFile writes a file whole or not at all: what was there stays until then.
// What is there and no file, such as a pipe, is written to.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	mode := fs.FileMode(0o666) // but for what the umask takes away
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return writeTo(name, os.O_WRONLY, 0, write)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	beside := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text())
	if err := writeTo(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode, write); err != nil {
		return err
	}
	if err := os.Rename(beside, name); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	return nil
}

// writeTo writes to a file, and removes one that it made when that fails.
func writeTo(name string, how int, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, how, mode)
	if err != nil {
		return err
	}
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil && how&os.O_EXCL != 0 {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
