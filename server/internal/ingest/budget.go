package ingest

import "sync/atomic"

// A budget is the memory that all requests together may hold in groups, beside
// a little that each may have anyway. Nobody waits for it: where there is none
// left, groups are smaller. So a client that is slow to send keeps nobody else
// from being served.
type budget struct {
	left atomic.Int64
}

// Each group takes from the budget in pieces, and has one piece for free.
const budgetPiece = 64 << 10

// take takes a piece, and reports whether there was one.
func (b *budget) take() bool {
	if b.left.Add(-budgetPiece) < 0 {
		b.left.Add(budgetPiece)
		return false
	}
	return true
}

func (b *budget) give(pieces int) { b.left.Add(int64(pieces) * budgetPiece) }
