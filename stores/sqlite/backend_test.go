package sqlite

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/attend-go/attend/stores/journal"
)

// The journal counts on also when it has become empty, in the next process too.
func TestEmptyJournal(t *testing.T) {
	file := newFileIn(t)
	want := journal.Bounds{Oldest: 1}
	for i := range uint64(3) {
		s, err := Open(t.Context(), file, Config{})
		if err != nil {
			t.Fatal(err)
		}
		b := &backend{d: s.d, wait: &s.rows.wait, log: &s.log}
		err = b.Update(t.Context(), func(tx journal.Tx) error {
			if got, err := tx.Bounds(); err != nil || got != want {
				t.Errorf("Bounds = %+v, %v, want %+v", got, err, want)
			}
			for k := range uint64(2) {
				if seq, err := tx.Append(math.MaxUint64-k, []byte("x")); err != nil || seq != 2*i+k+1 {
					t.Errorf("Append = %d, %v, want %d", seq, err, 2*i+k+1)
				}
			}
			if got, err := tx.Bounds(); err != nil || got != (journal.Bounds{Oldest: 2*i + 1, Newest: 2*i + 2, Tag: math.MaxUint64 - 1}) {
				t.Errorf("Bounds = %+v, %v, want the two records and the tag of the second", got, err)
			}
			return tx.Drop(math.MaxUint64)
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		want = journal.Bounds{Oldest: 2*i + 3, Newest: 2*i + 2}
	}
}

// What a commit needs to be durable is set on each connection: no test can cut
// the power.
func TestConnections(t *testing.T) {
	s := newStoreIn(t, filepath.Join(t.TempDir(), "attend.db"), Config{})
	back, err := s.d.back.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer back.close()
	reads, err := s.d.connect(t.Context(), time.Now().Add(time.Second), false)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.close()
	check := func(who string, c *conn, want map[string]string) {
		for name, value := range want {
			row, err := c.row("PRAGMA " + name)
			if err != nil || fmt.Sprint(row[0]) != value {
				t.Errorf("PRAGMA %s of the connection that %s = %v, %v, want %s", name, who, row, err, value)
			}
		}
	}
	durable := map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "checkpoint_fullfsync": "1", "wal_autocheckpoint": "0"}
	w := <-s.d.writer
	check("writes", w, durable)
	s.d.writer <- w
	check("writes the log back", back, durable)
	check("writes the log back", back, map[string]string{"busy_timeout": "100"})
	check("reads", reads, map[string]string{"query_only": "1", "busy_timeout": "0"})
}
