package bolt

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/attend-go/attend/stores/journal"
)

// ErrLocked says that another process holds the file, or another handle of this
// one. It may be tried again.
var ErrLocked = errors.New("another process holds it")

// ErrReplaced says that the file was deleted, or another one put in its place,
// while a handle had it open. The handle is of no use any more: close it, and
// open what is there now. Nothing was written.
var ErrReplaced = journal.ErrReplaced

// holder says which process holds the file, where the system tells.
func holder(file string) string {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	pid := holderPid(string(locks), inode(info))
	switch pid {
	case 0:
		return ""
	case os.Getpid():
		return ": it is open in this process already"
	}
	return fmt.Sprintf(": process %d", pid)
}

// holderPid finds an inode in lines such as
//
//	1: FLOCK  ADVISORY  WRITE 4021 fe:00:131074 0 EOF
//
// 0: it isn't there. The device is left out, since some file systems tell stat
// another one.
func holderPid(locks, inode string) int {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || inode == "" || !strings.HasSuffix(f[5], ":"+inode) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
