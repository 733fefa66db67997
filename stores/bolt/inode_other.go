//go:build !unix

package bolt

import "io/fs"

func inode(fs.FileInfo) string { return "" }
