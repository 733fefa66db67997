package customstore_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/examples/customstore"
)

func open(t testing.TB, dir string) *customstore.Store {
	t.Helper()
	s, err := customstore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOpenFindsWhatWasCommitted(t *testing.T) {
	dir := t.TempDir()
	at := time.UnixMilli(1_767_268_800_000)
	type seen struct {
		rec    attend.Record
		due    []attend.Scope
		bounds attend.Bounds
		rows   int
	}
	look := func(s *customstore.Store) (x seen) {
		x.rec, _ = s.Load(t.Context(), "ops/db")
		for scope := range s.Due(t.Context(), at) {
			x.due = append(x.due, scope)
		}
		x.bounds, _ = s.Bounds(t.Context())
		for range s.Read(t.Context(), attend.Query{}) {
			x.rows++
		}
		return x
	}
	s := open(t, dir)
	for range 5 {
		rec, _ := s.Load(t.Context(), "ops/db")
		_, err := s.Commit(t.Context(), []attend.Write{{
			Scope: "ops/db", Expect: rec.Version, Inputs: [][]byte{{0xff}, nil}, Due: at,
			Rows: []attend.Row{{Scope: "ops/db", ID: "d", Type: attend.RowDecision, At: at, Body: []byte(`{}`)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Trim(t.Context(), attend.Retain{Count: 2}, at); err != nil {
		t.Fatal(err)
	}
	want := look(s)
	if len(want.rec.Tail) != 10 || len(want.due) != 1 || want.rows != 2 || want.bounds.Newest != 5 {
		t.Fatalf("before the restart: %+v", want)
	}
	s.Close()

	// A crash left a file that never got its name.
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(`{"Scopes":{"op`), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = open(t, dir)
		if got := look(s); !reflect.DeepEqual(got, want) {
			t.Errorf("after a restart: %+v, want %+v", got, want)
		}
		s.Close()
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files after a restart, want one", len(files))
	}
}

func TestFailedCommitIsForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	w := []attend.Write{{Scope: "ops", Inputs: [][]byte{[]byte("a")}}}
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), w); err == nil {
		t.Fatal("a Commit without a folder has no error")
	}
	if err := os.Rename(dir+"-gone", dir); err != nil {
		t.Fatal(err)
	}
	if rec, err := s.Load(t.Context(), "ops"); err != nil || rec.Version != 0 {
		t.Errorf("Load after a failed Commit = %+v, %v, want no such scope", rec, err)
	}
	if out, err := s.Commit(t.Context(), w); err != nil || out[0].Conflict() {
		t.Errorf("the next Commit = %v, %v, want it to land", out, err)
	}
}
