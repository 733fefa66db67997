// Command attend runs attend from a shell. For people who try settings on a
// recording, for scripts, and as a server for apps in any language; Go programs
// can embed core/engine instead.
//
//	attend demo
//	attend serve
//	attend check
//	attend migrate
//	attend push [FILE]
//	attend tail
//	attend inspect SCOPE
//	attend explain SCOPE EVENT
//	attend replay FILE
//	attend version
//	attend help
//	attend completion SHELL
//
// Results go to standard output, logs and errors to standard error. It exits
// with 0 when it is done, 1 when it failed and 2 when it was called wrongly.
//
// Read root.go first, then serve.go, or replay.go. A setting is in setting.go; the
// table of serve's is in servesettings.go, and serveplan.go says what is made of
// them. The dependencies are github.com/spf13/cobra with its
// github.com/spf13/pflag, for commands, help and completion, go.yaml.in/yaml/v3,
// for files of settings, github.com/modelcontextprotocol/go-sdk, for the demo's
// server, and in tests github.com/rogpeppe/go-internal, for scripts that run the
// command.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
