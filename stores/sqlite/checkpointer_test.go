package sqlite

import (
	"os"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The log begins anew past its limit, unless somebody reads in it: that is
// waited for a moment, and tried again later.
func TestCheckpoint(t *testing.T) {
	s := newStoreIn(t, newFileIn(t), Config{})
	k := s.d.back
	c, err := k.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	fill := func() int64 {
		add(t, s, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: make([]byte, 1<<20)})
		st, err := os.Stat(s.d.file + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	before := fill()
	if now := fill(); now < before+1<<20 {
		t.Errorf("the log has %d bytes, then %d, want it to grow below its limit", before, now)
	}
	reader, err := s.d.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close()
	if _, err := reader.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	if n, err := reader.number("SELECT count(*) FROM attend_log"); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	before = fill()
	start := time.Now()
	if err := k.checkpoint(c, 1); err != nil {
		t.Errorf("checkpoint while somebody reads = %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("checkpoint holds up writers for %v while somebody reads", took)
	}
	if now := fill(); now < before+1<<20 {
		t.Errorf("the log began anew, with %d bytes, under a reader", now)
	}
	if n, err := reader.number("SELECT count(*) FROM attend_log"); err != nil || n != 2 {
		t.Errorf("the reader sees %d rows (%v), want the two of its moment", n, err)
	}
	if _, err := reader.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	before = fill()
	if err := k.checkpoint(c, 1); err != nil {
		t.Fatal(err)
	}
	if now := fill(); now > before {
		t.Errorf("the log grew from %d to %d bytes after it was to begin anew", before, now)
	}
}

// Writers that never pause don't make the log grow without end.
func TestLogUnderConstantWrites(t *testing.T) {
	s := newStoreIn(t, newFileIn(t), Config{})
	k := s.d.back
	c, err := k.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = k.checkpoint(c, 100)
			}
		}
		stopped <- err
	}()
	const total = 60 << 20
	for range total >> 18 {
		add(t, s, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: make([]byte, 1<<18)})
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	st, err := os.Stat(s.d.file + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() > total/2 {
		t.Errorf("the log has %d bytes after %d were written, want a small part of that", st.Size(), total)
	}
}
