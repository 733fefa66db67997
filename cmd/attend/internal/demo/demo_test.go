package demo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/attend-go/attend/cmd/attend/internal/demo"
)

// The steps come in their order, and end when nobody wants them any more.
func TestRun(t *testing.T) {
	var steps []demo.Step
	result, err := demo.Run(t.Context(), demo.Config{Print: func(s demo.Step) { steps = append(steps, s) }})
	if err != nil || result != (demo.Result{Events: 7, Deliveries: 2}) {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	var names string
	for i, s := range steps {
		names += s.Step[:1]
		if i > 0 && s.Since < steps[i-1].Since-50*time.Millisecond {
			t.Errorf("step %d at %v, behind one at %v", i, s.Since, steps[i-1].Since)
		}
	}
	if want := "eeeeesj" + "esjd" + "esjd"; names != want {
		t.Errorf("steps %s, want %s", names, want)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	_, err := demo.Run(ctx, demo.Config{Speed: 0.1, Print: func(demo.Step) { seen++; cancel() }})
	if !errors.Is(err, context.Canceled) || seen == 0 || seen > 2 {
		t.Errorf("Run = %v after %d steps, want the end after one", err, seen)
	}
	if _, err := demo.Run(t.Context(), demo.Config{Speed: 11}); err == nil {
		t.Error("a speed of 11 is taken")
	}
}
