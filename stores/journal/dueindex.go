package journal

import (
	"cmp"
	"slices"
)

// A dueIndex keeps keys in order: blocks of them, each sorted and before the
// next one. A change moves a part of one block, a page costs what it yields.
// Full blocks split in two, and small neighbours join.
type dueIndex struct {
	blocks [][]DueKey // none is empty
}

// dueBlock is how many keys a block has at most.
const dueBlock = 256

func (k DueKey) compare(o DueKey) int {
	if c := cmp.Compare(k.At, o.At); c != 0 {
		return c
	}
	return cmp.Compare(k.Scope, o.Scope)
}

// block is the place of the first block that ends at or behind k.
func (x *dueIndex) block(k DueKey) int {
	i, _ := slices.BinarySearchFunc(x.blocks, k, func(b []DueKey, k DueKey) int { return b[len(b)-1].compare(k) })
	return i
}

func (x *dueIndex) insert(k DueKey) {
	if len(x.blocks) == 0 {
		x.blocks = [][]DueKey{{k}}
		return
	}
	i := min(x.block(k), len(x.blocks)-1)
	b := x.blocks[i]
	at, _ := slices.BinarySearchFunc(b, k, DueKey.compare)
	b = slices.Insert(b, at, k)
	x.blocks[i] = b
	if half := len(b) / 2; len(b) >= dueBlock {
		x.blocks = slices.Insert(x.blocks, i+1, append(make([]DueKey, 0, dueBlock), b[half:]...))
		clear(b[half:])
		x.blocks[i] = b[:half]
	}
}

func (x *dueIndex) remove(k DueKey) {
	i := x.block(k)
	if i == len(x.blocks) {
		return
	}
	at, ok := slices.BinarySearchFunc(x.blocks[i], k, DueKey.compare)
	if !ok {
		return
	}
	b := slices.Delete(x.blocks[i], at, at+1)
	x.blocks[i] = b
	switch {
	case len(b) == 0:
		x.blocks = slices.Delete(x.blocks, i, i+1)
	case i+1 < len(x.blocks) && len(b)+len(x.blocks[i+1]) < dueBlock/2:
		x.blocks[i] = append(b, x.blocks[i+1]...)
		x.blocks = slices.Delete(x.blocks, i+1, i+2)
	}
}

// page appends to page, up to its capacity, the keys behind after whose time is
// at or before upTo.
func (x *dueIndex) page(after DueKey, upTo int64, page []DueKey) []DueKey {
	for _, b := range x.blocks[x.block(after):] {
		at, ok := slices.BinarySearchFunc(b, after, DueKey.compare)
		if ok {
			at++
		}
		for _, k := range b[at:] {
			if k.At > upTo || len(page) == cap(page) {
				return page
			}
			page = append(page, k)
		}
	}
	return page
}
