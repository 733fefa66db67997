package storebench

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// A bound is the least that a durable store can do: the scopes in a map, and one
// record a group in a file that has its room already, synced.
type bound struct {
	f      *os.File
	off    int64
	buf    []byte
	scopes map[attend.Scope][]byte // snapshot and tail
}

const boundRoom = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newBound(b *testing.B) *bound {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bound"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	zero := make([]byte, 1<<20)
	for range boundRoom / len(zero) {
		if _, err := f.Write(zero); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &bound{f: f, scopes: make(map[attend.Scope][]byte)}
}

func (d *bound) commit(writes []attend.Write) error {
	d.buf = appendRecord(d.buf[:0], writes)
	buf := d.buf
	if d.off+int64(len(buf)) > boundRoom {
		d.off = 0
	}
	if _, err := d.f.WriteAt(buf, d.off); err != nil {
		return err
	}
	d.off += int64(len(buf))
	if err := datasync(d.f); err != nil {
		return err
	}
	for i := range writes {
		w := &writes[i]
		kept := d.scopes[w.Scope]
		if w.Snapshot != nil {
			kept = append(kept[:0], w.Snapshot...)
		}
		for _, in := range w.Inputs {
			kept = append(kept, in...)
		}
		d.scopes[w.Scope] = kept
	}
	return nil
}

// appendRecord adds a group as one checksummed record.
func appendRecord(buf []byte, writes []attend.Write) []byte {
	at := len(buf)
	buf = append(buf, make([]byte, 8)...)
	for i := range writes {
		w := &writes[i]
		buf = append(buf, w.Scope...)
		buf = binary.LittleEndian.AppendUint64(buf, w.Expect)
		buf = binary.LittleEndian.AppendUint64(buf, uint64(w.Due.UnixMilli()))
		buf = append(buf, w.Snapshot...)
		for _, in := range w.Inputs {
			buf = append(buf, in...)
		}
		for _, r := range w.Rows {
			buf = append(buf, r.Body...)
		}
	}
	record := buf[at:]
	binary.LittleEndian.PutUint32(record, uint32(len(record)))
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(record[8:], castagnoli))
	return buf
}
