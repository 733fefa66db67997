package journal

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID is the file's number, and behind a dash when it was made.
func fileID(_ string, info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(s.Ino, 16) + "-" + strconv.FormatInt(s.Birthtimespec.Nano(), 16)
}
