//go:build ignore

// Bench turns the output of the stores' benchmarks into tables, one for each
// kind, a row a store. Lines look like sqlite/commit/group=16-2 5 0.58 of-bound.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

var line = regexp.MustCompile(`^([a-z]+)/(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

func main() {
	type table struct {
		units []string
		rows  []map[string]string
	}
	tables := make(map[string]*table)
	var order []string
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		store, name, rest := m[1], m[2], strings.Fields(m[3])
		t := tables[name]
		if t == nil {
			t = new(table)
			tables[name], order = t, append(order, name)
		}
		row := map[string]string{"": store}
		for i := 0; i+1 < len(rest); i += 2 {
			value, unit := rest[i], rest[i+1]
			if !slices.Contains(t.units, unit) {
				t.units = append(t.units, unit)
			}
			row[unit] = value
		}
		t.rows = append(t.rows, row)
	}
	if err := in.Err(); err != nil || len(order) == 0 {
		fmt.Fprintln(os.Stderr, "bench: no benchmark was run", err)
		os.Exit(1)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range order {
		t := tables[name]
		fmt.Fprintf(w, "%s\t%s\t\n", name, strings.Join(t.units, "\t"))
		for _, row := range t.rows {
			fmt.Fprint(w, row[""], "\t")
			for _, unit := range t.units {
				fmt.Fprint(w, row[unit], "\t")
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
