package attend

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"time"
)

// A DecisionID names a decision: the same for each redelivery, different for
// different scopes. Two windows share one only where they hold the same events
// (one that waited with nothing new, one pushed again after it was forgotten),
// so it is no unique key of the log.
type DecisionID string

// NewDecisionID returns the id of a window of these events in scope.
//
// The algorithm is a contract (core/vectors/decisionid pins it). The id is the
// first 20 bytes, in lower-case hex, of the SHA-256 of
//
//	"attend decision 1\n", str(scope), u64(number of events),
//	and for each event, in order: str(source key), str(id)
//
// where u64 is eight bytes, big-endian, and str(s) is u64(len(s)) and s.
func NewDecisionID(scope Scope, events []Event) DecisionID {
	h := sha256.New()
	io.WriteString(h, "attend decision 1\n")
	buf := make([]byte, 0, 1024)
	buf = appendStr(buf, string(scope))
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(events)))
	for i := range events {
		if len(buf) > 512 {
			h.Write(buf)
			buf = buf[:0]
		}
		buf = appendStr(buf, events[i].Source)
		buf = appendStr(buf, events[i].ID)
	}
	h.Write(buf)
	return sumID(h.Sum(nil))
}

// NewIntakeID returns the id of the dead letter of one event that could not be
// taken in. The algorithm is that of [NewDecisionID] for this one event, with
// "attend intake 1\n" in place of the first string, so that the event, once it
// is mended and sent again, gets a decision id that no letter has had.
func NewIntakeID(scope Scope, e Event) DecisionID {
	buf := append([]byte("attend intake 1\n"), appendStr(nil, string(scope))...)
	buf = binary.BigEndian.AppendUint64(buf, 1)
	buf = appendStr(buf, e.Source)
	buf = appendStr(buf, e.ID)
	sum := sha256.Sum256(buf)
	return sumID(sum[:])
}

func sumID(sum []byte) DecisionID { return DecisionID(hex.EncodeToString(sum[:20])) }

func appendStr(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// A Decision is a verdict that leaves attend.
type Decision struct {
	ID     DecisionID
	At     time.Time // when it was made
	Window Window
	Judgment
}

// Scope is the scope that the decision is about.
func (d *Decision) Scope() Scope { return d.Window.Scope }
