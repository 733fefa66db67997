package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// checkFile looks whether bbolt can go through the file's pages without coming
// to a place that isn't there. bbolt does that when it opens a file, in a
// goroutine of its own; what it meets there ends the process.
//
// The lock that is held meanwhile is let go before bbolt takes its own. Who
// writes in between leaves whole pages.
func checkFile(file string, patience time.Duration) error {
	db, _, err := openBolt(file, &bbolt.Options{ReadOnly: true, Timeout: patience})
	if err != nil {
		return notBolt(err)
	}
	defer db.Close()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	size := int64(db.Info().PageSize)
	c := &checker{file: f, size: size, pages: uint64(tx.Size() / size), seen: make(map[uint64]struct{})}
	if info.Size() < tx.Size() {
		return c.bad("it is cut off: it has %d bytes, of %d", info.Size(), tx.Size())
	}
	return c.tree(uint64(tx.Cursor().Bucket().Root()), nil, nil)
}

// A checker reads pages as bbolt writes them: a header of the page's number (8
// bytes), its kind, the number of its elements (2 bytes each) and of the pages
// that follow it (4); then 16 bytes an element, and then their keys and values.
// Numbers are in the machine's byte order.
type checker struct {
	file  *os.File
	size  int64  // of a page
	pages uint64 // in use, all in all
	seen  map[uint64]struct{}
	depth int
}

const (
	kindBranch, kindLeaf = 1, 2
	headerSize           = 16
	elementSize          = 16
	flagBucket           = 1
)

func (c *checker) bad(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, attend.ErrCorrupt)...)
}

// tree checks a page and all below it. Its keys are from low on and below high,
// where there are these.
func (c *checker) tree(id uint64, low, high []byte) error {
	if _, twice := c.seen[id]; twice || id < 2 || id >= c.pages || c.depth > 100 {
		return c.bad("page %d is out of place", id)
	}
	c.seen[id] = struct{}{}
	c.depth++
	defer func() { c.depth-- }()
	head := make([]byte, c.size)
	if _, err := c.file.ReadAt(head, int64(id)*c.size); err != nil {
		return err
	}
	overflow := uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head) != id || id+overflow >= c.pages {
		return c.bad("page %d is damaged", id)
	}
	for next := id + 1; next <= id+overflow; next++ {
		if _, twice := c.seen[next]; twice {
			return c.bad("page %d is out of place", next)
		}
		c.seen[next] = struct{}{}
	}
	// Of a long page only the elements are needed, and what buckets hold.
	at := func(off, n uint64) ([]byte, error) {
		if off+n <= uint64(c.size) {
			return head[off : off+n], nil
		}
		b := make([]byte, n)
		_, err := c.file.ReadAt(b, int64(id)*c.size+int64(off))
		return b, err
	}
	return c.page(fmt.Sprintf("page %d", id), (overflow+1)*uint64(c.size), low, high, at)
}

// page checks the elements of a page that is length bytes long.
func (c *checker) page(name string, length uint64, low, high []byte, at func(off, n uint64) ([]byte, error)) error {
	if length < headerSize {
		return c.bad("%s is damaged", name)
	}
	head, err := at(0, headerSize)
	if err != nil {
		return err
	}
	kind, count := binary.NativeEndian.Uint16(head[8:]), uint64(binary.NativeEndian.Uint16(head[10:]))
	if kind != kindBranch && kind != kindLeaf || headerSize+count*elementSize > length || kind == kindBranch && count == 0 {
		return c.bad("%s is damaged", name)
	}
	elements, err := at(headerSize, count*elementSize)
	if err != nil {
		return err
	}
	keys := make([][]byte, count)
	for i := range count {
		e := elements[i*elementSize:]
		word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(e[4*i:])) }
		from, size, value := headerSize+i*elementSize+word(0), word(1), uint64(0) // places count from the element
		if kind == kindLeaf {
			from, size, value = headerSize+i*elementSize+word(1), word(2), word(3)
		}
		if from+size+value > length {
			return c.bad("%s is damaged", name)
		}
		if keys[i], err = at(from, size); err != nil {
			return err
		}
		if i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 || i == 0 && bytes.Compare(keys[i], low) < 0 || high != nil && bytes.Compare(keys[i], high) >= 0 {
			return c.bad("%s has keys out of order", name)
		}
		if kind == kindLeaf && word(0)&flagBucket != 0 {
			if err := c.bucket(name, from+size, value, at); err != nil {
				return err
			}
		}
	}
	if kind == kindLeaf {
		return nil
	}
	for i := range count {
		next := high
		if i+1 < count {
			next = keys[i+1]
		}
		if err := c.tree(binary.NativeEndian.Uint64(elements[i*elementSize+8:]), keys[i], next); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket: the number of its root page, a counter, and where
// that number is 0 the page itself.
func (c *checker) bucket(name string, off, n uint64, at func(off, n uint64) ([]byte, error)) error {
	const header = 16
	if n < header {
		return c.bad("a bucket in %s is damaged", name)
	}
	b, err := at(off, header)
	if err != nil {
		return err
	}
	if root := binary.NativeEndian.Uint64(b); root != 0 {
		return c.tree(root, nil, nil)
	}
	inline := func(o, n uint64) ([]byte, error) { return at(off+header+o, n) }
	return c.page("a bucket in "+name, n-header, nil, nil, inline)
}
