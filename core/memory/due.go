package memory

import (
	"cmp"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// A dueKey is a scope's place in the index: by due time, then by name.
type dueKey struct {
	at    int64 // in Unix milliseconds
	scope attend.Scope
}

func (k dueKey) compare(o dueKey) int {
	if c := cmp.Compare(k.at, o.at); c != 0 {
		return c
	}
	return cmp.Compare(k.scope, o.scope)
}

// A dueIndex keeps the scopes that have a due time in order: a B-tree whose
// keys are all in its leaves. A change costs O(log n), a page what it yields
// and O(log n).
type dueIndex struct {
	root *dueNode // nil before the first key
}

// dueFan is how many keys or kids a node has at most. Full nodes split in two;
// a node that fell under a quarter joins its neighbour where both fit in half
// of one.
const dueFan = 64

type dueNode struct {
	// keys are a leaf's content. In an inner node they stand for the kids: a
	// kid holds what is at or behind its key and before the next one. The first
	// kid takes what is before the first key too.
	keys []dueKey
	kids []*dueNode // nil in a leaf
}

func (x *dueIndex) insert(k dueKey) {
	if x.root == nil {
		x.root = &dueNode{}
	}
	if right := x.root.insert(k); right != nil {
		x.root = &dueNode{keys: []dueKey{x.root.keys[0], right.keys[0]}, kids: []*dueNode{x.root, right}}
	}
}

func (x *dueIndex) remove(k dueKey) {
	if x.root == nil {
		return
	}
	x.root.remove(k)
	for len(x.root.kids) == 1 {
		x.root = x.root.kids[0]
	}
}

// page appends to page, up to its capacity, the keys behind after whose time is
// at or before now.
func (x *dueIndex) page(after dueKey, now int64, page []dueKey) []dueKey {
	if x.root == nil {
		return page
	}
	return x.root.page(after, now, page)
}

// upper is the number of keys at or before k.
func (n *dueNode) upper(k dueKey) int {
	lo, hi := 0, len(n.keys)
	for lo < hi {
		if mid := (lo + hi) / 2; n.keys[mid].compare(k) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// kid is the place of the kid that holds k, if any does.
func (n *dueNode) kid(k dueKey) int { return max(n.upper(k)-1, 0) }

// insert adds k and returns the new right half if n had to split.
func (n *dueNode) insert(k dueKey) *dueNode {
	if n.kids == nil {
		n.keys = slices.Insert(n.keys, n.upper(k), k)
	} else {
		i := n.kid(k)
		if right := n.kids[i].insert(k); right != nil {
			n.keys = slices.Insert(n.keys, i+1, right.keys[0])
			n.kids = slices.Insert(n.kids, i+1, right)
		}
	}
	if len(n.keys) < dueFan {
		return nil
	}
	half := dueFan / 2
	right := &dueNode{keys: append(make([]dueKey, 0, dueFan), n.keys[half:]...)}
	clear(n.keys[half:])
	n.keys = n.keys[:half]
	if n.kids != nil {
		right.kids = append(make([]*dueNode, 0, dueFan), n.kids[half:]...)
		clear(n.kids[half:])
		n.kids = n.kids[:half]
	}
	return right
}

func (n *dueNode) remove(k dueKey) {
	if n.kids == nil {
		if i := n.upper(k) - 1; i >= 0 && n.keys[i] == k {
			n.keys = slices.Delete(n.keys, i, i+1)
		}
		return
	}
	i := n.kid(k)
	n.kids[i].remove(k)
	switch left := len(n.kids[i].keys); {
	case left == 0:
		n.drop(i)
	case left < dueFan/4 && i > 0:
		n.join(i)
	case left < dueFan/4 && i+1 < len(n.kids):
		n.join(i + 1)
	}
}

// join moves what kid i has to the kid before it, if there is room.
func (n *dueNode) join(i int) {
	a, b := n.kids[i-1], n.kids[i]
	if len(a.keys)+len(b.keys) > dueFan/2 {
		return
	}
	if b.kids != nil {
		b.keys[0] = n.keys[i] // b's first kid may hold less than its own key
	}
	a.keys = append(a.keys, b.keys...)
	a.kids = append(a.kids, b.kids...)
	n.drop(i)
}

func (n *dueNode) drop(i int) {
	n.keys = slices.Delete(n.keys, i, i+1)
	n.kids = slices.Delete(n.kids, i, i+1)
}

func (n *dueNode) page(after dueKey, now int64, page []dueKey) []dueKey {
	if n.kids == nil {
		for _, k := range n.keys[n.upper(after):] {
			if k.at > now || len(page) == cap(page) {
				break
			}
			page = append(page, k)
		}
		return page
	}
	for i := n.kid(after); i < len(n.kids) && len(page) < cap(page); i++ {
		if i > 0 && n.keys[i].at > now {
			break
		}
		page = n.kids[i].page(after, now, page)
	}
	return page
}
