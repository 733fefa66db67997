package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// killEnv is the variable that makes a test process a child. It holds a killSpec.
const killEnv = "ATTEND_KILL_CHILD"

// A killSpec is what a child is told when it starts.
type killSpec struct {
	Test  string // that calls Kill
	Place string
	Seed  uint64
	Life  int
	// After are the cursors that it reads the log behind. Nil: it reads nothing.
	After []attend.LogCursor
}

// A killRequest is a line to a child.
type killRequest struct {
	Number int
	Do     string // push, flush or end
	Scope  attend.Scope
	Events []attend.Event `json:",omitempty"`
}

// A killReply is a line from a child.
type killReply struct {
	Ready  bool         `json:",omitempty"` // it has opened the store
	Answer *killAnswer  `json:",omitempty"`
	Taken  *killTakenID `json:",omitempty"` // the sink is about to take a decision
	Row    *killRow     `json:",omitempty"` // one of its readers has read
	Broken string       `json:",omitempty"` // it can't go on
}

type killAnswer struct {
	Number int
	Err    string `json:",omitempty"`
	// Again says that the error is one that a healthy store leads to as well.
	Again bool `json:",omitempty"`
}

type killTakenID struct {
	ID    attend.DecisionID
	Scope attend.Scope
	At    time.Time
}

// A killRow is a row as a reader saw it.
type killRow struct {
	Reader int
	Cursor attend.LogCursor
	Type   attend.RowType
	ID     attend.DecisionID
	Scope  attend.Scope
	At     time.Time
	Sum    uint64 // of its body
}

// same reports whether two readers saw the same row.
func (r killRow) same(o killRow) bool {
	return r.Cursor == o.Cursor && r.Type == o.Type && r.ID == o.ID && r.Scope == o.Scope && r.At.Equal(o.At) && r.Sum == o.Sum
}

// A lineWriter writes a line at a time, whoever comes.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lineWriter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(b, '\n'))
	return err
}

// lines calls f with each line that came whole, until f is unhappy or there are
// no more. A killed process may leave half of one.
func lines[T any](from io.Reader, f func(*T) error) error {
	in := bufio.NewReaderSize(from, 1<<16)
	for {
		b, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		v := new(T)
		if err := json.Unmarshal(b, v); err != nil {
			return err
		}
		if err := f(v); err != nil {
			return err
		}
	}
}
