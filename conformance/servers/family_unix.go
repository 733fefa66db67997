//go:build unix && !linux

package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// A relative is a process that another one started.
type relative struct {
	pid    int
	parent int
	ended  bool // but nobody waited for it yet
}

// alive reports whether the process is still there.
func (r relative) alive() bool { return !errors.Is(syscall.Kill(r.pid, 0), syscall.ESRCH) }

// descendants returns what pid started, and what that started.
func descendants(pid int) ([]relative, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	children := make(map[int][]relative)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		id, err := strconv.Atoi(f[0])
		parent, perr := strconv.Atoi(f[1])
		if err := errors.Join(err, perr); err != nil {
			return nil, fmt.Errorf("ps: %w", err)
		}
		children[parent] = append(children[parent], relative{id, parent, strings.HasPrefix(f[2], "Z")})
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}
