package redis

import (
	"context"
	crypto "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	attend "github.com/attend-go/attend/core"
)

// A script serves nobody else while it runs, so a group is cut here.
const (
	partWrites = 256
	partRows   = 1024
	partBytes  = 4 << 20
)

// A part is a run of writes that one script commits.
type part struct {
	writes []attend.Write
	next   []uint64 // the version that each gets, drawn at random
	call   call
}

// Commit applies the writes, as [attend.ScopeStore] says. An error that is
// [attend.ErrInvalid] means that a row has a type that isn't known, and that
// nothing was applied; after any other, nothing is known.
func (s *Store) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	for i := range writes {
		for j := range writes[i].Rows {
			if typeOf(writes[i].Rows[j].Type) < 0 {
				return nil, s.failed(ctx, "commit", &attend.InvalidError{Field: "type", Want: "decision, letter or verdict"})
			}
		}
	}
	out := make([]attend.Outcome, 0, len(writes))
	if len(writes) == 0 {
		return out, nil
	}
	parts := s.parts(writes, s.noting(ctx))
	calls := make([]call, len(parts))
	for i := range parts {
		calls[i] = parts[i].call
	}
	answers, err := s.runAll(ctx, commitScript, calls)
	if err != nil {
		return nil, s.failed(ctx, "commit", err)
	}
	for i, p := range parts {
		a := answers[i]
		if len(a) != 3 || len(a[1]) != len(p.writes) {
			return nil, s.failed(ctx, "commit", s.refused([]string{""}))
		}
		for j := range p.writes {
			o := attend.Outcome{Version: p.next[j]}
			if a[1][j] == '0' {
				o = attend.Outcome{}
			}
			out = append(out, o)
		}
		s.landed(p, a[1], a[2])
	}
	return out, nil
}

// landed tells waiters of this process, and retention, of a part's rows.
func (s *Store) landed(p part, applied, newest string) {
	if newest == "" {
		return
	}
	var topics []string
	for i := range p.writes {
		if applied[i] == '0' {
			continue
		}
		for j := range p.writes[i].Rows {
			r := &p.writes[i].Rows[j]
			topics = append(topics, topic(r))
			s.rows.saw(r)
		}
	}
	s.hub.grown(position(newest), topics)
	if s.keeper != nil {
		s.keeper.poke()
	}
}

// parts cuts a group, and encodes each part as lua/commit.lua wants it.
func (s *Store) parts(writes []attend.Write, noting string) []part {
	var parts []part
	for len(writes) > 0 {
		n, rows, bytes := 0, 0, 0
		for n < len(writes) && n < partWrites {
			w := &writes[n]
			rows += len(w.Rows)
			bytes += weight(w)
			if n > 0 && (rows > partRows || bytes > partBytes) {
				break
			}
			n++
		}
		parts = append(parts, s.part(writes[:n], noting))
		writes = writes[n:]
	}
	return parts
}

// weight is about how many bytes a write brings.
func weight(w *attend.Write) int {
	n := len(w.Scope) + len(w.Snapshot)
	for _, in := range w.Inputs {
		n += len(in)
	}
	for i := range w.Rows {
		n += 2*len(w.Rows[i].Scope) + len(w.Rows[i].ID) + len(w.Rows[i].Body)
	}
	return n
}

func (s *Store) part(writes []attend.Write, noting string) part {
	p := part{writes: writes, next: make([]uint64, len(writes))}
	k := s.keys
	keys := make([]string, 0, 10+len(writes))
	keys = append(keys, k.head(), k.due())
	for _, of := range []func(int) string{k.log, k.ids} {
		for t := range rowTypes {
			keys = append(keys, of(t))
		}
	}
	keys = append(keys, k.noted(crypto.Text()))
	args := make([]string, 5, 5+5*len(writes))
	for i := range writes {
		w := &writes[i]
		keys = append(keys, k.scope(w.Scope))
		p.next[i] = rand.Uint64N(1<<62-1) + 1
		args = appendWrite(args, w, p.next[i])
	}
	fixed := len(keys)
	lists := make(map[string]string) // of a key, its place behind the fixed ones
	var topics []string
	for i := range writes {
		for j := range writes[i].Rows {
			r := &writes[i].Rows[j]
			topics = append(topics, topic(r))
			t := typeOf(r.Type)
			var in []byte
			for _, level := range levels(r.Scope) {
				key := k.list(t, level)
				place, ok := lists[key]
				if !ok {
					keys = append(keys, key)
					place = strconv.Itoa(len(keys) - fixed)
					lists[key] = place
				}
				in = append(append(in, place...), ' ')
			}
			args = append(args, strconv.Itoa(i+1), strconv.Itoa(t+1), string(r.Scope), string(r.ID),
				strconv.FormatInt(r.At.UnixMilli(), 10), string(r.Body), string(in))
		}
	}
	args[0], args[1], args[2], args[3], args[4] = schema, strconv.Itoa(len(writes)), strconv.Itoa(len(k.scope(""))), message(topics), noting
	p.call = call{keys, args}
	return p
}

// appendWrite encodes one write. It copies the bytes: a call that is given up
// may still be on its way to the server when the caller uses them again.
func appendWrite(args []string, w *attend.Write, next uint64) []string {
	expect := ""
	if w.Expect != 0 {
		expect = strconv.FormatUint(w.Expect, 10) + ":"
	}
	args = append(args, expect, strconv.FormatUint(next, 10)+":")
	switch {
	case w.Forget:
		return append(args, "f", "0")
	case w.KeepDue:
		args = append(args, "k")
	case w.Due.IsZero():
		args = append(args, "")
	default:
		args = append(args, strconv.FormatInt(w.Due.UnixMilli(), 10))
	}
	if w.Snapshot != nil {
		return append(args, "s", string(w.Snapshot))
	}
	args = append(args, strconv.Itoa(len(w.Inputs)))
	for _, in := range w.Inputs {
		args = append(args, string(in))
	}
	return args
}

// topic is what the waiters of a row listen for.
func topic(r *attend.Row) string { return string(r.Type) + " " + string(r.Scope) }

// maxMessage is how many bytes of topics are told. A longer list tells everyone.
const maxMessage = 8 << 10

// message encodes topics for other processes. The empty one is for everyone.
func message(topics []string) string {
	var b []byte
	for i, t := range topics {
		if i > 0 && t == topics[i-1] {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(t)))
		if b = append(b, t...); len(b) > maxMessage {
			return ""
		}
	}
	return string(b)
}
