package machine

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"
	"testing"
)

// The vectors of SipHash-2-4 that its authors published: the hash of the bytes
// 0, 1, 2 … n-1 under the key of the bytes 0 to 15, for n from 0 to 63, as the
// bytes of a little-endian number.
const siphashVectors = `
	310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785
	b7877127e09427cf 8da699cd64557618 cee3fe586e46c9cb 37d1018bf50002ab
	6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
	fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1
	db9bc2577fcc2a3f 9447be2cf5e99a69 9cd38d96f0b3c14b bd6179a71dc96dbb
	98eea21af25cd6be c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8
	94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f
	a5c91da7acaa4dde 716595876650a2a6 28ef495c53a387ad 42c341d8fa92d832
	ce7cf2722f512771 e37859f94623f3a7 381205bb1ab0e012 ae97a10fd434e015
	b4a31508beff4d31 81396229f0907902 4d0cf49ee5d4dcca 5c73336a76d8bf9a
	d0a704536ba93e0e 925958fcd6420cad a915c29bc8067318 952b79f3bc0aa6d4
	f21df2e41d4535f9 87577519048f53a9 10a56cf5dfcd9adb eb75095ccd986cd0
	51a9cb9ecba312e6 96afadfc2ce666c7 72fe52975a4364ee 5a1645b276d592a1
	b274cb8ebf87870a 6f9bb4203de7b381 eaecb2a30b22a87f 9924a43cc1315724
	bd838d3aafbf8db7 0b1a2a3265d51aea 135079a3231ce660 932b2846e4d70666
	e1915f5cb1eca46c f325965ca16d629f 575ff28e60381be5 724506eb4c328a95
`

func siphashKey() key {
	var k key
	for i := range k {
		k[i] = byte(i)
	}
	return k
}

// siphashCount is the bytes 0, 1, 2 … n-1.
func siphashCount(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// siphashPlain is SipHash-2-4 as it is written down, over bytes.
func siphashPlain(k key, message string) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:])
	v := [4]uint64{
		k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573,
	}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13)
			v[3] = bits.RotateLeft64(v[3], 16)
			v[1] ^= v[0]
			v[3] ^= v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17)
			v[3] = bits.RotateLeft64(v[3], 21)
			v[1] ^= v[2]
			v[3] ^= v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := append([]byte(message), make([]byte, 8-len(message)%8)...)
	padded[len(padded)-1] = byte(len(message))
	for i := 0; i < len(padded); i += 8 {
		word := binary.LittleEndian.Uint64(padded[i:])
		v[3] ^= word
		rounds(2)
		v[0] ^= word
	}
	v[2] ^= 0xff
	rounds(4)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// The hash of a pushed event's id begins with the zero byte that ends its empty
// source, and so does every vector but the first.
func TestHashIsSipHash(t *testing.T) {
	k := siphashKey()
	vectors := strings.Fields(siphashVectors)
	if len(vectors) != 64 {
		t.Fatalf("%d vectors, want 64", len(vectors))
	}
	for n, text := range vectors {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		want := binary.LittleEndian.Uint64(b)
		if got := siphashPlain(k, siphashCount(n)); got != want {
			t.Errorf("siphashPlain of %d bytes = %016x, want %016x", n, got, want)
		}
		if n == 0 {
			continue
		}
		if got := k.hash("", siphashCount(n)[1:]); got != want {
			t.Errorf("hash of %d bytes = %016x, want %016x", n, got, want)
		}
	}
}

func TestHashOfSourceAndID(t *testing.T) {
	k := siphashKey()
	letters := strings.Repeat("log:ci/Ünï", 4)
	for s := range 20 {
		for n := range 20 {
			source, id := letters[:s], letters[s:s+n]
			want := siphashPlain(k, source+"\x00"+id)
			if got := k.hash(source, id); got != want {
				t.Errorf("hash(%q, %q) = %016x, want %016x", source, id, got, want)
			}
		}
	}
	long := strings.Repeat("x", 1024)
	if got, want := k.hash(long, long[:256]), siphashPlain(k, long+"\x00"+long[:256]); got != want {
		t.Errorf("hash of the longest names = %016x, want %016x", got, want)
	}
	other := k
	other[15]++
	if k.hash("ci", "1") == other.hash("ci", "1") {
		t.Error("two keys give one hash")
	}
}
