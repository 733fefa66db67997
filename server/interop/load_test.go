//go:build unix

package interop_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// wrk brings events over many connections, and reads over many: nothing fails,
// and what was answered is there. How fast it is, is a benchmark's matter.
func TestWrk(t *testing.T) {
	t.Parallel()
	path := tool(t, "wrk", false) // a program that a machine may well be without
	w := start(t, setup{})
	const connections = 16
	load := func(args ...string) (requests int) {
		t.Helper()
		p := run(t, exec.Command(path, append([]string{"-t", "2", "-c", strconv.Itoa(connections), "-d", "1s", "--timeout", "30s"}, args...)...))
		code := p.code()
		var got struct{ Requests, Errors int }
		decode(t, p.await("summary", func(l string) bool { return strings.HasPrefix(l, "{") }), &got)
		if code != 0 || got.Errors != 0 || got.Requests == 0 || p.stderr.Len() != 0 {
			t.Errorf("wrk %v: exit code %d, %+v, %.400s", args, code, got, p.stderr.String())
		}
		t.Logf("wrk %v: %d requests", args, got.Requests)
		return got.Requests
	}

	w.decide("ops", 1, 10)
	load("-s", "scripts/read.lua", w.url+"/v1/decisions")
	answered := load("-s", "scripts/ingest.lua", w.url+"/v1/ingest")
	// Those that were under way in the end are there, too, but wrk does not count them.
	taken, _ := readMetric(t, w.url, `attend_events_total{result="accepted"}`, "")
	taken -= 10 // of the decisions
	if least, most := float64(10*answered), float64(10*(answered+connections)); taken < least || taken > most {
		t.Errorf("%v events were taken, want %v to %v", taken, least, most)
	}
	if n, _ := readMetric(t, w.url, `attend_events_total{result="rejected"}`, ""); n != 0 {
		t.Errorf("%v events were rejected, want 0", n)
	}
	if got := status(t, w.url+"/readyz"); got != 200 {
		t.Errorf("readyz = %d after load, want 200", got)
	}
}
