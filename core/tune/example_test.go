package tune_test

import (
	"fmt"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/tune"
)

func ExampleSuggestThreshold() {
	interrupt := func(p float64) attend.Judgment {
		return attend.Judgment{
			Route:         attend.RouteInterrupt,
			Probabilities: map[attend.Route]float64{attend.RouteInterrupt: p, attend.RouteSkip: 1 - p},
		}
	}
	recorded := []attend.Judgment{ // of two hours
		interrupt(0.9), interrupt(0.2), interrupt(0.6), interrupt(0.6), interrupt(0.4),
	}
	s, err := tune.SuggestThreshold(recorded, 2*time.Hour, 1.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range s.Candidates {
		fmt.Printf("%.1f: %d acts, %.1f an hour\n", c.Threshold, c.Acts, c.PerHour)
	}
	fmt.Println("suggested:", s.Found, s.Threshold)
	// Output:
	// 0.2: 5 acts, 2.5 an hour
	// 0.4: 4 acts, 2.0 an hour
	// 0.6: 3 acts, 1.5 an hour
	// 0.9: 1 acts, 0.5 an hour
	// suggested: true 0.6
}
