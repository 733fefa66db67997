package storebench

import "testing"

// MeasureSize runs the benchmark of sizes alone.
func MeasureSize(b *testing.B, s Subject) { s.size(b) }
