package servers

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A relative is a process that another one started. Its start tells it from a
// later one with the same id.
type relative struct {
	pid    int
	parent int
	start  string
	ended  bool // but nobody waited for it yet
}

// alive reports whether the process is still there.
func (r relative) alive() bool {
	now, err := look(r.pid)
	return err == nil && now.start == r.start && !now.ended
}

// look reads the process's line. Its second field is a name in parentheses,
// which may hold anything.
func look(pid int) (relative, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relative{}, err
	}
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
	f := strings.Fields(rest)
	if len(f) < 20 {
		return relative{}, errors.New("/proc has a line that is too short")
	}
	parent, err := strconv.Atoi(f[1])
	return relative{pid: pid, parent: parent, start: f[19], ended: f[0] == "Z" || f[0] == "X"}, err
}

// descendants returns what pid started, and what that started.
func descendants(pid int) ([]relative, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]relative)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		r, err := look(id)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has just gone
		}
		if err != nil {
			return nil, err
		}
		children[r.parent] = append(children[r.parent], r)
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}
