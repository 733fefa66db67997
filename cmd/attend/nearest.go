package main

import "strings"

// nearest is the name of known that somebody may have meant who wrote name, and
// empty where none is near.
func nearest(name string, known []string) string {
	name = bare(name)
	most := max(1, len(name)/4)
	best := ""
	for _, k := range known {
		if d := distance(name, bare(k), most); d <= most {
			best, most = k, d-1 // the first of those that are equally near
		}
	}
	return best
}

// bare is a name without what people spell in different ways.
func bare(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(name))
}

// distance is how many letters must be put in, left out, changed or swapped with
// their neighbor to make b of a. It is only known to be more than most where it is.
func distance(a, b string, most int) int {
	if gap := len(a) - len(b); gap > most || -gap > most {
		return most + 1
	}
	// Three rows of the table: this one and the two before.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
