package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// A failure is an error of a command that was called rightly. Every other error
// is one of usage: those that cobra finds, and those in what a flag says.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// run is the whole command; its result is the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		return exitDone
	}
	printError(errOut, err)
	if _, ok := errors.AsType[*failure](err); ok {
		return exitFailed
	}
	return exitUsage
}

// printError prints an error so that it can't do anything to a terminal: a server's
// words may be in it.
func printError(w io.Writer, err error) {
	text := strings.ReplaceAll("attend: "+err.Error(), "\t", "    ")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(w, plain(line))
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "attend",
		Short: "Settles a firehose of events into decisions for an agent",
		Long: `attend settles each scope's events into windows, asks a judge what the agent
should do about each, and hands the decisions over.

Every flag can be set by an environment variable as well: ATTEND_CLOSING_GRACE
stands for --closing-grace. A flag wins over the variable. The settings of
attend serve can be in a file, too, which --config names.

It exits with 0 when it is done, 1 when it failed and 2 when it was called
wrongly.`,
		Example: `  attend replay --kinds examples/data/kinds.json examples/data/github-day.ndjson
  attend help replay`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDemo(), newServe(), newCheck(), newMigrate(), newPush(), newTail(), newInspect(), newExplain(), newReplay(), newVersion(), newCompletion())
	root.CompletionOptions.DisableDefaultCmd = true // ours is in completion.go
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(flagError)
	return root
}

// newHelp is cobra's help command, but that an unknown topic is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explains a command",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if of, _, err := c.Root().Find(args); err == nil {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("unknown command %q for %q", rest[0], of.CommandPath())
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}
