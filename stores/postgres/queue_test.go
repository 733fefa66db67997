package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// stuck returns an event log whose next group waits until release is called.
func stuck(t *testing.T) (l *postgres.EventLog, first chan error, release func()) {
	pool := newPool(t, serverURL(t)+"&pool_max_conns=6")
	// What a test does meanwhile may take long, with the race detector.
	c := migrated(t, pool, postgres.Config{Timeout: 2 * time.Minute})
	l = logOn(t, pool, c)
	release = hold(t, pool, c, "events")
	first = make(chan error, 1)
	go func() { first <- l.Append(context.Background(), "ops", []attend.Event{{ID: "first", Name: "n"}}) }()
	time.Sleep(100 * time.Millisecond)
	return l, first, release
}

// Calls that have ended while another group was under way are not appended later.
func TestAbandonedAppends(t *testing.T) {
	l, first, release := stuck(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	ended := make(chan error, 50)
	for i := range cap(ended) {
		go func() { ended <- l.Append(ctx, "ops", []attend.Event{{ID: fmt.Sprint(i), Name: "n"}}) }()
	}
	for range cap(ended) {
		if err := <-ended; err == nil {
			t.Error("an Append ended without an error while the log was stuck")
		}
	}
	if n := postgres.Waiting(l); n != 0 {
		t.Errorf("%d calls wait that have ended", n)
	}
	release()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "last", Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := eventIDs(t, l, "ops", ""); fmt.Sprint(got) != "[first last]" {
		t.Errorf("the log has %v, want the first and the last", got)
	}
}

// What waits has a limit, in bytes.
func TestAppendsThatAreTooMuch(t *testing.T) {
	l, first, release := stuck(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	data := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	ended := make(chan error, 20)
	for i := range cap(ended) {
		var events []attend.Event
		for k := range 20 {
			events = append(events, attend.Event{ID: fmt.Sprint(i, k), Name: "n", Data: data})
		}
		go func() { ended <- l.Append(ctx, "ops", events) }()
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "waits") {
			t.Errorf("Append beside 64 MiB that wait: %v, want to be refused", err)
		}
	case <-time.After(time.Minute):
		t.Error("80 MiB wait, and nothing is refused")
	}
	cancel()
	for range cap(ended) - 1 {
		<-ended
	}
	release()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "last", Name: "n"}}); err != nil {
		t.Errorf("Append after the queue was full: %v", err)
	}
}
