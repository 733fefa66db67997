package postgres

import (
	"encoding/binary"
	"fmt"

	attend "github.com/attend-go/attend/core"
)

// appendTail appends inputs to b, each behind its length. What two calls wrote
// can be joined.
func appendTail(b []byte, inputs [][]byte) []byte {
	for _, in := range inputs {
		b = binary.AppendUvarint(b, uint64(len(in)))
		b = append(b, in...)
	}
	return b
}

// splitTail cuts what appendTail wrote into pieces that can't grow into each
// other.
func splitTail(b []byte) ([][]byte, error) {
	var tail [][]byte
	for len(b) > 0 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("a scope's inputs: %w", attend.ErrCorrupt)
		}
		end := k + int(n)
		tail, b = append(tail, b[k:end:end]), b[end:]
	}
	return tail, nil
}
