package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A version says what this binary is, and its JSON form.
type version struct {
	Version  string `json:"version"` // of the module, or devel
	Go       string `json:"go"`
	Platform string `json:"platform"`

	Stores []string `json:"stores"` // that this binary has
	Judges []string `json:"judges"`
}

// versionOf is the version that a build's information tells; nil is none.
func versionOf(info *debug.BuildInfo) version {
	v := version{
		Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Stores: storeNames(), Judges: judgeNames(),
	}
	if info != nil && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	return v
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Prints the version",
		Example: "  attend version --json",
		Args:    cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.boolean(&asJSON, "json", "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.readEnvironment(); err != nil {
			return err
		}
		info, _ := debug.ReadBuildInfo()
		v := versionOf(info)
		var err error
		if asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(v)
		} else {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "attend %s %s %s\n", v.Version, v.Go, v.Platform)
		}
		if err != nil {
			return &failure{err}
		}
		return nil
	}
	return cmd
}
