package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// newCompletion prints what makes a shell complete attend's commands and flags.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Prints the completion script of a shell: bash, zsh or fish",
		Example: `  source <(attend completion bash)
  attend completion zsh >"${fpath[1]}/_attend"
  attend completion fish >~/.config/fish/completions/attend.fish`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || shell(args[0]) == nil {
				return fmt.Errorf("completion wants one shell: bash, zsh or fish")
			}
			return nil
		},
		ValidArgs:             []cobra.Completion{"bash", "zsh", "fish"},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shell(args[0])(cmd.Root(), cmd.OutOrStdout()); err != nil {
				return &failure{err}
			}
			return nil
		},
	}
}

// shell is what writes the script of a shell, nil for one that is not known.
func shell(name string) func(*cobra.Command, io.Writer) error {
	switch name {
	case "bash":
		return func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) }
	case "zsh":
		return (*cobra.Command).GenZshCompletion
	case "fish":
		return func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) }
	}
	return nil
}
