// Command attend runs attend from a shell. For people who try settings on a
// recording, and for scripts; Go programs embed core/engine instead.
//
//	attend replay FILE
//	attend version
//	attend help
//	attend completion SHELL
//
// Results go to standard output, logs and errors to standard error. It exits
// with 0 when it is done, 1 when it failed and 2 when it was called wrongly.
//
// Read root.go first, then replay.go. The dependencies are
// github.com/spf13/cobra, for commands, help and completion, and in tests
// github.com/rogpeppe/go-internal, for scripts that run the command.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
