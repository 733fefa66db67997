package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

func rowCases() []Case {
	return []Case{
		{"log/columns", "A Row is what a store keeps of one decision, dead letter or mark: the columns to find it by, and bytes.", "v0.1", logColumns},
		{"log/body", "JSON, opaque to a store", "v0.1", logBody},
		{"log/copies-commit", "It copies what it keeps", "v0.1", logCopiesCommit},
		{"log/copies-read", "callers and store own their slices", "v0.1", logCopiesRead},
		{"log/find-newest", "Find returns the newest row of type t with this id", "v0.1", findNewest},
		{"log/find-type", "The empty t is RowDecision.", "v0.1", findType},
		{"log/find-unknown", "or an error that is ErrNotFound", "v0.1", findUnknown},
		{"log/ids-repeat", "not unique", "v0.1", idsRepeat},
	}
}

func logColumns(ctx context.Context, e Env) error {
	s := e.Store()
	want := []attend.Row{
		rowAt("a:b", "x' \" % \\ é", letter, time.UnixMilli(1)),
		rowAt("ops/db", strings.Repeat("0123456789", 4), decision, after(time.Millisecond)),
		rowAt("ops", "v", verdict, time.UnixMilli(7_258_118_400_999)),
	}
	for _, r := range want {
		if err := add(ctx, s, r); err != nil {
			return err
		}
		found, err := s.Log().Find(ctx, r.ID, r.Type)
		if err != nil {
			return fmt.Errorf("Find: %w", err)
		}
		if err := same("a row that Find returns", r, found.Row); err != nil {
			return err
		}
	}
	for _, r := range want {
		entries, err := read(ctx, s, only(r.Type))
		if err != nil {
			return err
		}
		var got []attend.Row
		for _, e := range entries {
			got = append(got, e.Row)
		}
		if err := same(fmt.Sprintf("the %s row that Read yields", r.Type), []attend.Row{r}, got); err != nil {
			return err
		}
	}
	return nil
}

func logBody(ctx context.Context, e Env) error {
	s := e.Store()
	for i, body := range []string{
		"{}", "null", " { \"a\" : 1.0,\n\t\"b\":\"\\u0000<é\\ud83d\\ude42\" , \"a\":2, \"A\":1e400 }\n",
		`{"z":1,"a":[1,2, 3],"n":12345678901234567890.10}`, `"'; -- % \\ \" 🙂"`,
	} {
		r := row("ops", fmt.Sprint(i), decision)
		r.Body = []byte(body)
		if err := add(ctx, s, r); err != nil {
			return err
		}
		found, err := s.Log().Find(ctx, r.ID, decision)
		if err != nil {
			return fmt.Errorf("Find: %w", err)
		}
		if !bytes.Equal(found.Body, r.Body) {
			return fmt.Errorf("a body of %q comes back as %q", body, found.Body)
		}
	}
	return nil
}

func logCopiesCommit(ctx context.Context, e Env) error {
	s := e.Store()
	r := row("ops", "a", decision)
	if err := add(ctx, s, r); err != nil {
		return err
	}
	want := string(r.Body)
	copy(r.Body, "XXXXXXXX")
	found, err := s.Log().Find(ctx, "a", decision)
	if err != nil {
		return fmt.Errorf("Find: %w", err)
	}
	return same("a row's body, after the caller changed its own", want, string(found.Body))
}

func logCopiesRead(ctx context.Context, e Env) error {
	s := e.Store()
	r := row("ops", "a", decision)
	if err := add(ctx, s, r); err != nil {
		return err
	}
	for _, how := range []string{"Read", "Find"} {
		var got attend.Entry
		var err error
		for range 2 {
			if how == "Find" {
				got, err = s.Log().Find(ctx, "a", decision)
			} else {
				for got, err = range s.Log().Read(ctx, decisions) {
					break
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
			if err := same("a body, after the caller changed the one that "+how+" returned", string(r.Body), string(got.Body)); err != nil {
				return err
			}
			copy(got.Body, "XXXXXXXX")
			_ = append(got.Body[:1], "XXXXXXXX"...)
		}
	}
	return nil
}

func findNewest(ctx context.Context, e Env) error {
	s := e.Store()
	for i, scope := range []attend.Scope{"z", "a", "m"} {
		r := rowAt(scope, "d", decision, after(-time.Duration(i)*time.Hour))
		r.Body = []byte(fmt.Sprint(i))
		if err := add(ctx, s, r, row("noise", fmt.Sprint(i), decision)); err != nil {
			return err
		}
		got, err := s.Log().Find(ctx, "d", decision)
		if err != nil {
			return fmt.Errorf("Find: %w", err)
		}
		if string(got.Body) != fmt.Sprint(i) {
			return fmt.Errorf("after %d rows of one id, Find returns number %s, want the newest", i+1, got.Body)
		}
	}
	return nil
}

func findType(ctx context.Context, e Env) error {
	s := e.Store()
	for _, t := range []attend.RowType{decision, letter, verdict} {
		if err := add(ctx, s, row("ops", "d", t)); err != nil {
			return err
		}
	}
	for t, want := range map[attend.RowType]attend.RowType{"": decision, decision: decision, letter: letter, verdict: verdict} {
		got, err := s.Log().Find(ctx, "d", t)
		if err != nil {
			return fmt.Errorf("Find of type %q: %w", t, err)
		}
		if got.Type != want {
			return fmt.Errorf("Find of type %q returns a %s row, want %s", t, got.Type, want)
		}
	}
	return nil
}

func findUnknown(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "d", decision)); err != nil {
		return err
	}
	for _, c := range []struct {
		id attend.DecisionID
		t  attend.RowType
	}{{"nothing", decision}, {"d", letter}, {"d", verdict}, {"D", decision}, {"", ""}} {
		if _, err := s.Log().Find(ctx, c.id, c.t); !errors.Is(err, attend.ErrNotFound) {
			return fmt.Errorf("Find(%q, %q): %v, want an error that is ErrNotFound", c.id, c.t, err)
		}
	}
	return nil
}

func idsRepeat(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: []attend.Row{row("ops", "d", decision), row("ops", "d", decision)}}); err != nil {
		return err
	}
	if err := add(ctx, s, row("ops", "d", decision)); err != nil {
		return err
	}
	return reads(ctx, s, "three rows of one scope, type and id", decisions, "d", "d", "d")
}
