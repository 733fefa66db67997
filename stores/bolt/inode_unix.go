//go:build unix

package bolt

import (
	"io/fs"
	"strconv"
	"syscall"
)

// inode is the file's number as the list of locks has it, empty if there is
// none.
func inode(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(s.Ino), 10)
	}
	return ""
}
