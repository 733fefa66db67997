//go:build unix && !linux && !darwin

package journal

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID is the file's number.
func fileID(_ string, info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(uint64(s.Ino), 16) + "-"
}
