package journal

import (
	"encoding/binary"
	"io/fs"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// statxCall is the number of the call that tells when a file was made, which
// package syscall has not got.
var statxCall = map[string]uintptr{
	"386": 383, "amd64": 332, "arm": 397, "arm64": 291, "loong64": 291, "ppc64": 383, "ppc64le": 383, "riscv64": 291, "s390x": 379,
}[runtime.GOARCH]

// fileID is the file's number, and behind a dash when it was made, if the file
// system knows.
func fileID(path string, info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(s.Ino, 16) + "-" + born(path)
}

func born(path string) string {
	const (
		here  = -100   // AT_FDCWD
		btime = 0x0800 // STATX_BTIME
	)
	name, err := syscall.BytePtrFromString(path)
	if err != nil || statxCall == 0 {
		return ""
	}
	// struct statx: its mask is first, the time of birth at 80, as seconds and
	// nanoseconds.
	var b [256]byte
	dir := here
	_, _, e := syscall.Syscall6(statxCall, uintptr(dir), uintptr(unsafe.Pointer(name)), 0, btime, uintptr(unsafe.Pointer(&b)), 0)
	order := binary.NativeEndian
	if e != 0 || order.Uint32(b[:])&btime == 0 {
		return ""
	}
	return strconv.FormatUint(order.Uint64(b[80:]), 16) + "." + strconv.FormatUint(uint64(order.Uint32(b[88:])), 16)
}
