package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	attend "github.com/attend-go/attend/core"
)

// The body of a folded state is the format's version (1 byte), the CRC-32C of
// what follows it (4 bytes, big-endian), 1 or 0 for a snapshot or none (1 byte),
// the snapshot behind its length, and the inputs since, each behind its length.
const (
	stateVersion = 1
	stateHeader  = 6
)

// pieces are a scope's snapshot and the inputs since, in the places where they
// happen to be.
type pieces struct {
	snap []byte // nil: none
	tail [][]byte
}

// encodeState puts the pieces together.
func encodeState(p pieces) []byte {
	size := stateHeader + inputSize(p.snap)
	for _, t := range p.tail {
		size += len(t)
	}
	b := make([]byte, stateHeader, size)
	b[0] = stateVersion
	if p.snap != nil {
		b[5] = 1
		b = appendInput(b, p.snap)
	}
	for _, t := range p.tail {
		b = append(b, t...)
	}
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], castagnoli))
	return b
}

// decodeState cuts a body into pieces, which are the body's bytes. An error is
// [attend.ErrCorrupt] or [attend.ErrNewer].
func decodeState(scope attend.Scope, body []byte) (p pieces, err error) {
	bad := func(what string) (pieces, error) {
		return pieces{}, fmt.Errorf("folded state of scope %.40q: %s: %w", scope, what, attend.ErrCorrupt)
	}
	switch {
	case len(body) < stateHeader:
		return bad("cut off")
	case body[0] > stateVersion:
		return p, fmt.Errorf("folded state of scope %.40q has format %d, this release knows %d: %w", scope, body[0], stateVersion, attend.ErrNewer)
	case body[0] != stateVersion || body[5] > 1:
		return bad("unknown format")
	case binary.BigEndian.Uint32(body[1:]) != crc32.Checksum(body[5:], castagnoli):
		return bad("wrong checksum")
	}
	d := &decoder{rest: body[stateHeader:]}
	if body[5] == 1 {
		p.snap = d.bytes()
	}
	if d.bad || !validInputs(d.rest) {
		return bad("unreadable")
	}
	if len(d.rest) > 0 {
		p.tail = [][]byte{d.rest}
	}
	return p, nil
}

// record is a copy of the pieces as callers get it, in one allocation but cut
// so that no slice can grow into the next.
func (p pieces) record(version uint64) attend.Record {
	rec := attend.Record{Version: version}
	size, n := len(p.snap), 0
	for _, t := range p.tail {
		size += len(t)
		for d := (decoder{rest: t}); len(d.rest) > 0; n++ {
			d.bytes()
		}
	}
	b := make([]byte, 0, size)
	cut := func(part []byte) []byte {
		at := len(b)
		b = append(b, part...)
		return b[at:len(b):len(b)]
	}
	if p.snap != nil {
		rec.Snapshot = cut(p.snap)
	}
	if n > 0 {
		rec.Tail = make([][]byte, 0, n)
	}
	for _, t := range p.tail {
		for d := (decoder{rest: t}); len(d.rest) > 0; {
			rec.Tail = append(rec.Tail, cut(d.bytes()))
		}
	}
	return rec
}
