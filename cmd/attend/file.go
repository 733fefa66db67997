package main

import (
	"fmt"
	"io"
	"os"
)

// maxFile is how large a file of settings, kinds, tokens or texts may be, in
// bytes.
const maxFile = 1 << 20

// readFile is all of a small file. exposed says what is wrong where there are
// secrets in it: others may read it.
func readFile(name string) (text []byte, exposed, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: want at most %d bytes", name, maxFile)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 && owned(info) {
		exposed = fmt.Errorf("a token or password is in this file, and others may read or change it (mode %04o); run chmod 600", mode.Perm())
	}
	return text, exposed, err
}
