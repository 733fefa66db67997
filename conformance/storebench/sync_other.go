//go:build !linux

package storebench

import "os"

func datasync(f *os.File) error { return f.Sync() }
