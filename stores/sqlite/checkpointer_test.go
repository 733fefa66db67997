package sqlite

import (
	"fmt"
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
	reader, err := s.d.dial(t.Context(), false)
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

// Somebody who reads for long costs writers one wait, and not one after each
// few commits.
func TestCheckpointBehindAReader(t *testing.T) {
	s := newStoreIn(t, newFileIn(t), Config{})
	k := s.d.back
	c, err := k.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	fill := func() {
		add(t, s, attend.Row{Scope: "ops", ID: "d", Type: attend.RowDecision, Body: make([]byte, 1<<20)})
	}
	fill()
	reader, err := s.d.dial(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close()
	if _, err := reader.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	if n, err := reader.number("SELECT count(*) FROM attend_log"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	// waits reports whether a checkpoint keeps writers out.
	waits := func() bool {
		t.Helper()
		fill()
		w := <-s.d.writer
		done := make(chan error, 1)
		go func() { done <- k.checkpoint(c, 1) }()
		var err error
		waits := false
		select {
		case err = <-done:
			s.d.writer <- w
		case <-time.After(time.Second):
			waits = true
			s.d.writer <- w
			err = <-done
		}
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	if !waits() {
		t.Fatal("the first checkpoint past the limit does not keep writers out")
	}
	for i := range 5 {
		if waits() {
			t.Errorf("checkpoint %d behind the same reader keeps writers out again", i)
		}
	}
	k.busy = k.busy.Add(-checkpointAgain)
	if !waits() {
		t.Error("no checkpoint keeps writers out after some time")
	}
	if waits() {
		t.Error("the next one does so again")
	}
	if _, err := reader.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if !waits() {
		t.Error("the reader has gone, and the log does not begin anew")
	}
}

// What retention deletes is written back as what commits add is.
func TestLogUnderRetention(t *testing.T) {
	file := newFileIn(t)
	const total = 60_000
	s := newStoreIn(t, file, Config{})
	for i := range total / 1000 {
		rows := make([]attend.Row, 1000)
		for k := range rows {
			id := attend.DecisionID(fmt.Sprint(i, "-", k))
			rows[k] = attend.Row{Scope: attend.Scope(fmt.Sprint("ops/", k%300)), ID: id, Type: attend.RowDecision, Body: make([]byte, 100)}
		}
		add(t, s, rows...)
	}
	// All of it is in the index, so that there is one thing to do.
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: total - 1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		trim func(*Store) error
		cfg  Config
		upTo attend.Position
	}{
		{"the keeper", func(*Store) error { return nil }, Config{Retain: attend.Retain{Count: total * 2 / 3}}, total / 3},
		{"Trim", func(s *Store) error { return s.Log().Trim(t.Context(), attend.Retain{Count: 1}, time.Now()) }, Config{}, total - 1},
	} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = newStoreIn(t, file, c.cfg)
		if err := c.trim(s); err != nil {
			t.Fatal(err)
		}
		largest := int64(0)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if st, err := os.Stat(file + "-wal"); err == nil {
				largest = max(largest, st.Size())
			}
			b, err := s.Log().Bounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if b.Trimmed >= c.upTo {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has trimmed up to %d, want %d", c.name, b.Trimmed, c.upTo)
			}
		}
		if largest > 80<<20 {
			t.Errorf("%s makes the log grow to %d MiB, want about 64 at most", c.name, largest>>20)
		}
		for end := time.Now().Add(5 * time.Second); s.d.back.bytes.Load() > 0 && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		if n := s.d.back.bytes.Load(); n > 0 {
			t.Errorf("a while after %s %d bytes are still to be written back", c.name, n)
		}
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
