//go:build !linux && !darwin

package bolt_test

import (
	"context"
	"errors"
)

// limitJob is a child whose files may not grow; no test asks for it here.
func limitJob(context.Context, string) error { return errors.ErrUnsupported }
