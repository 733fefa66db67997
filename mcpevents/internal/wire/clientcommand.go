package wire

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// terminateDuration is the SDK's own default.
const terminateDuration = 5 * time.Second

// A command runs a server as the SDK's CommandTransport does, and reads its
// output by lines.
type command struct {
	t   *mcp.CommandTransport
	max int
	bad func(over bool)
}

// Connect starts the command.
func (c *command) Connect(ctx context.Context) (mcp.Connection, error) {
	out, err := c.t.Command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := c.t.Command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.t.Command.Start(); err != nil {
		return nil, err
	}
	p := &process{WriteCloser: in, cmd: c.t.Command, patience: c.t.TerminateDuration}
	if p.patience <= 0 {
		p.patience = terminateDuration
	}
	t := &mcp.IOTransport{Reader: newLines(io.NopCloser(out), c.max, c.bad), Writer: p, MaxLineLength: -1}
	return t.Connect(ctx)
}

// A process is a server's input; to close it ends the server.
type process struct {
	io.WriteCloser
	cmd      *exec.Cmd
	patience time.Duration
}

// Close closes the input and waits for the server to exit. One that does not is
// told to terminate, and then killed.
func (p *process) Close() error {
	if err := p.WriteCloser.Close(); err != nil {
		return fmt.Errorf("closing stdin: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- p.cmd.Wait() }()
	for _, end := range []func() error{
		func() error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		p.cmd.Process.Kill,
	} {
		t := time.NewTimer(p.patience)
		select {
		case err := <-gone:
			t.Stop()
			return err
		case <-t.C:
		}
		_ = end() // it may be gone by now, or not to be had that way
	}
	return <-gone
}
