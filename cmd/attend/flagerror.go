package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what is wrong with a flag as [flags.at] does. The library's own
// words quote the value, which may be a secret.
func flagError(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %w", e.GetFlag().Name, e.Unwrap())
	}
	if _, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return errors.New("want flags as --name VALUE or --name=VALUE")
	}
	e, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
		return err
	case e.GetSpecifiedShortnames() != "": // what follows may be a value: -token=…
		return fmt.Errorf("unknown short flag: -%s; want flags as --name VALUE or --name=VALUE", e.GetSpecifiedName())
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := nearest(e.GetSpecifiedName(), known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}
