package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/report"
	attend "github.com/attend-go/attend/core"
)

var morning = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func write(t *testing.T, r *report.Report, s report.Summary) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// balanced reports an element that is not closed, text that became markup
// included: everything from the first svg on is well-formed.
func balanced(t *testing.T, page string) {
	t.Helper()
	for part := range strings.SplitSeq(page, "<svg") {
		if svg, _, ok := strings.Cut(part, "</svg>"); ok {
			d := xml.NewDecoder(strings.NewReader("<svg" + svg + "</svg>"))
			for {
				_, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	page := write(t, new(report.Report), report.Summary{Title: "nothing"})
	balanced(t, page)
	for _, want := range []string{"Nothing in it has a time", "There are none", "No judgment had probabilities"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page has numbers that are none")
	}
}

// Whatever an event says stays text, and the page loads nothing.
func TestHostile(t *testing.T) {
	var r report.Report
	bad := `"><script>alert(1)</script><title>&amp;'`
	for i, route := range attend.AllRoutes() {
		r.Add(report.Mark{At: morning.Add(time.Duration(i) * time.Minute), Scope: attend.Scope(bad), Route: route, Text: bad, Reason: attend.ReasonClosing, Events: 2})
	}
	r.Add(report.Mark{At: morning, Route: "none"})
	page := write(t, &r, report.Summary{Title: bad, Decisions: 4, From: morning, To: morning.Add(time.Hour)})
	balanced(t, page)
	for _, never := range []string{"<script", "http://", "https://", "url(", "alert(1)</"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if n := strings.Count(page, "<circle"); n != 6 {
		t.Errorf("%d dots, want one a route", n)
	}
	if n := strings.Count(page, "<tr><td>"); n != 4 {
		t.Errorf("%d decisions, want the four that leave attend", n)
	}
}

// A page is small, however much was recorded and for how long.
func TestBounded(t *testing.T) {
	var r report.Report
	const n = 300_000
	routes := attend.AllRoutes()
	for i := range n {
		r.Add(report.Mark{At: morning.Add(time.Duration(i) * time.Hour), Scope: "s", Route: routes[i%len(routes)], Text: "a decision", Reason: attend.ReasonClosing})
	}
	s := report.Summary{Decisions: n, From: morning, To: morning.Add(n * time.Hour)}
	for i := range 50_000 {
		s.Candidates = append(s.Candidates, report.Candidate{Threshold: float64(i) / 50_000, PerHour: float64(50_000 - i)})
	}
	page := write(t, &r, s)
	balanced(t, page)
	if len(page) > 2<<20 {
		t.Errorf("a page of %d bytes", len(page))
	}
	if !strings.Contains(page, "299\u2009000 more are in the replay") {
		t.Error("the page does not say how many decisions are left out")
	}
}

// The threshold's line, the budget and the suggestion are where they belong.
func TestThreshold(t *testing.T) {
	half, most := 0.5, 2.0
	page := write(t, new(report.Report), report.Summary{
		Candidates: []report.Candidate{{0.25, 4}, {0.5, 2}}, Suggested: &half, MaxPerHour: &most,
	})
	for _, want := range []string{
		`d="M76.0 40.0H304.5V120.0H533.0V200.0H990.0"`, // of 5 an hour at the top
		`class="limit" x1="76" x2="990" y1="120" y2="120"`,
		`class="pick" x1="533" x2="533"`,
		"0.5 is the lowest threshold that calls the agent at most 2 times an hour.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestWriteFails(t *testing.T) {
	if err := new(report.Report).Write(full{}, report.Summary{}); err == nil {
		t.Error("Write to a full disk has no error")
	}
}
