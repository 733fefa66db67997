//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// owned reports whether a file is this user's own. Only then is its mode this
// user's to mend; a secret that a cluster mounts is another's. So ssh does with
// keys.
func owned(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
