package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	payloads := flag.String("payloads", "", "the package's api.github.com/index.json")
	out := flag.String("out", "", "the file to write; empty: standard output")
	flag.Parse()
	if *payloads == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "record: -payloads FILE is needed, and no other argument is taken")
		os.Exit(2)
	}
	if err := run(*payloads, *out, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// run reads the index at payloads and writes the day to the file out, or to
// stdout where out is empty. Nothing is written unless all of it could be made.
func run(payloads, out string, stdout io.Writer) error {
	index, err := os.ReadFile(payloads)
	if err != nil {
		return err
	}
	list, err := decodeIndex(index)
	if err != nil {
		return fmt.Errorf("%s: %w", payloads, err)
	}
	var day bytes.Buffer
	if err := record(&day, list); err != nil {
		return err
	}
	if out == "" {
		_, err = stdout.Write(day.Bytes())
		return err
	}
	return os.WriteFile(out, day.Bytes(), 0o644)
}
