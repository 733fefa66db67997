//go:build !unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Process groups, signals and the watching shell are those of Unix. Elsewhere
// the environment has to name a server.
var errSystem = fmt.Errorf("%w: this system can't run private servers", ErrMissing)

type process struct {
	done chan struct{}
	err  error
}

func begin(*exec.Cmd, *account) (*process, error) { return nil, errSystem }

func (p *process) pid() int                 { return 0 }
func (p *process) interrupt() error         { return errors.ErrUnsupported }
func (p *process) terminate() error         { return errors.ErrUnsupported }
func (p *process) wait(time.Duration) bool  { return true }
func (p *process) status() string           { return "" }
func (p *process) kill(time.Duration) error { return nil }

type account struct{}

func unprivileged([]string) (*account, error) { return nil, errSystem }
func (a *account) own(string) error           { return nil }
func (a *account) enter(string) error         { return nil }

func lock(context.Context, *os.File, time.Duration) error { return nil }

type watch struct{}

func newWatch(string) (*watch, error) { return nil, errSystem }
func (w *watch) over(int) error       { return nil }
func (w *watch) close() error         { return nil }
