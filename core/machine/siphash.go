package machine

import (
	"encoding/binary"
	"math/bits"
)

// A key is the secret under which a scope keeps the ids it has seen, so that
// nobody can make two ids collide (E46).
type key [16]byte

// hash is SipHash-2-4 (Aumasson and Bernstein, 2012) of the source key, a zero
// byte and the id. No name holds a zero byte, so no two identities are hashed
// alike.
func (k *key) hash(source, id string) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])
	h := sip{
		k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
		k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573,
	}
	var block uint64 // the bytes since the last full block, the first one lowest
	n := 0
	add := func(c byte) {
		block |= uint64(c) << (8 * (n & 7))
		if n++; n&7 == 0 {
			h.block(block)
			block = 0
		}
	}
	for i := range len(source) {
		add(source[i])
	}
	add(0)
	for n&7 != 0 && len(id) > 0 {
		add(id[0])
		id = id[1:]
	}
	for ; len(id) >= 8; id, n = id[8:], n+8 {
		h.block(uint64(id[0]) | uint64(id[1])<<8 | uint64(id[2])<<16 | uint64(id[3])<<24 |
			uint64(id[4])<<32 | uint64(id[5])<<40 | uint64(id[6])<<48 | uint64(id[7])<<56)
	}
	for i := range len(id) {
		add(id[i])
	}
	return h.sum(block | uint64(n)<<56)
}

type sip struct{ v0, v1, v2, v3 uint64 }

func (h *sip) round() {
	h.v0 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 13) ^ h.v0
	h.v0 = bits.RotateLeft64(h.v0, 32)
	h.v2 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 16) ^ h.v2
	h.v0 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 21) ^ h.v0
	h.v2 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 17) ^ h.v2
	h.v2 = bits.RotateLeft64(h.v2, 32)
}

func (h *sip) block(m uint64) {
	h.v3 ^= m
	h.round()
	h.round()
	h.v0 ^= m
}

func (h *sip) sum(last uint64) uint64 {
	h.block(last)
	h.v2 ^= 0xff
	for range 4 {
		h.round()
	}
	return h.v0 ^ h.v1 ^ h.v2 ^ h.v3
}
