package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// The most that one statement carries, and what is worth a connection of its
// own: a session of the server works on one processor.
const (
	maxStatementWrites = 4096
	maxStatementBytes  = 64 << 20
	worthALane         = 256 // writes
	maxLanes           = 4
)

// Commit applies the writes, as [attend.ScopeStore] says, in one statement. From
// 512 writes on it is up to four statements at once, each on a connection of its
// own, as long as that leaves half of the pool to others. A name that PostgreSQL
// can't hold is an error that is [attend.ErrInvalid], and nothing was applied
// then.
func (s *Store) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out := make([]attend.Outcome, len(writes))
	if err := s.ready(ctx, "commit"); err != nil || len(writes) == 0 {
		return out, err
	}
	for i := range writes {
		if err := checkWrite(&writes[i]); err != nil {
			return nil, fmt.Errorf("postgres: commit: write %d: %w", i, err)
		}
	}
	n := len(writes)
	lanes := max(1, min(n/worthALane, s.lanes))
	errs := make([]error, lanes)
	var all sync.WaitGroup
	for k := range lanes - 1 {
		from, to := k*n/lanes, (k+1)*n/lanes
		all.Go(func() { errs[k] = s.commitAll(ctx, writes[from:to], out[from:to]) })
	}
	from := (lanes - 1) * n / lanes
	errs[lanes-1] = s.commitAll(ctx, writes[from:], out[from:])
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// commitAll applies writes in as many statements as they need.
func (s *Store) commitAll(ctx context.Context, writes []attend.Write, out []attend.Outcome) error {
	for len(writes) > 0 {
		g := newGroup(writes)
		if err := s.commit(ctx, g, out); err != nil {
			return err
		}
		writes, out = writes[len(g.writes):], out[len(g.writes):]
	}
	return nil
}

// commit applies one group, and fills in the outcomes of what landed.
func (s *Store) commit(ctx context.Context, g *group, out []attend.Outcome) error {
	text := s.texts.of(g.shape)
	var landed []int64
	err := s.call(ctx, "commit", false, func(ctx context.Context) error {
		return s.onward(ctx, "decisions", func() error { return s.send(ctx, text, g, &landed) })
	})
	if err != nil {
		return err
	}
	rows := 0
	for _, i := range landed {
		out[i-1].Version = uint64(max(g.version[i-1], 1))
		rows += len(g.writes[i-1].Rows)
	}
	if rows > 0 {
		s.log.hub.kick()
		s.keeper.added(rows)
	}
	return nil
}

// send runs the statement by itself, which is one round trip and one implicit
// transaction. Where that was stricter than READ COMMITTED and failed for it,
// the next time it is in a transaction of its own, still in one round trip.
func (s *Store) send(ctx context.Context, text string, g *group, landed *[]int64) error {
	args, into := g.args(), []any{landed, nil}
	if g.shape&hasRows != 0 {
		into = append(into, nil)
	}
	if !s.strict.Load() {
		err := s.pool.QueryRow(ctx, text, args...).Scan(into...)
		if code(err) == codeSerialization {
			s.strict.Store(true)
		}
		return err
	}
	b := new(pgx.Batch)
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	b.Queue(text, args...).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	b.Queue("COMMIT")
	return s.pool.SendBatch(ctx, b).Close()
}

// onward sends what appends to a log, and once more where the log's positions
// must jump first, since this is another server than the one before.
func (d *db) onward(ctx context.Context, log string, send func() error) error {
	err := send()
	if code(err) == codeNotNull && d.bound {
		if err := d.jump(ctx, log); err != nil {
			return err
		}
		err = send()
	}
	if code(err) == codeNotNull {
		return d.cfg.noRow("{turns}", log)
	}
	return err
}

// jump moves a log's positions on to where the last server never was. How far is
// random, so that two servers that began with one backup give out others.
func (d *db) jump(ctx context.Context, log string) error {
	_, err := d.pool.Exec(ctx, d.cfg.named(`UPDATE {turns} SET lineage = `+lineage+`,
			base = base + (1::bigint << 32) + (random() * (1::bigint << 32))::bigint
		WHERE name = $1 AND lineage <> `+lineage), log)
	return err
}

// A group is the writes of one statement, by column.
type group struct {
	writes  []attend.Write
	shape   shape
	scopes  []string
	expect  []int64
	version []int64 // the new one
	due     []int64
	tail    [][]byte
	snap    [][]byte
	mode    []int16

	of      []int64 // whose row it is, from 1
	types   []string
	rscopes []string
	ids     []string
	at      []int64
	bodies  [][]byte
	lists   [levels][]int64 // 0: none
}

// newGroup takes as many of the writes as go into one statement.
func newGroup(writes []attend.Write) *group {
	n := min(len(writes), maxStatementWrites)
	g := &group{
		scopes: make([]string, 0, n), expect: make([]int64, 0, n), version: make([]int64, 0, n), due: make([]int64, 0, n),
		tail: make([][]byte, 0, n), snap: make([][]byte, 0, n), mode: make([]int16, 0, n),
	}
	size := 0
	for i := range writes[:n] {
		w := &writes[i]
		if size += weight(w); i > 0 && size > maxStatementBytes {
			break
		}
		g.add(w)
	}
	g.writes = writes[:len(g.scopes)]
	return g
}

func (g *group) add(w *attend.Write) {
	// A version is random, not counted: one that was lost with a server would
	// come again, and a writer that has seen it would write over another's.
	expect, version, due, mode := int64(w.Expect), rand.Int64N(1<<62-1)+1, int64(math.MaxInt64), int16(modeDue)
	if !w.Due.IsZero() {
		due = w.Due.UnixMilli()
	}
	switch {
	case w.Forget && w.Expect == 0:
		mode = modeNothing
	case w.Forget:
		mode = modeForget
	case w.Expect == 0:
		mode = modeNew
	case w.KeepDue:
		mode = modeKeep
	}
	if w.Expect >= math.MaxInt64 { // which no scope ever has
		expect, version = -1, -1
	}
	var tail, snap []byte
	switch {
	case w.Forget:
		g.shape |= hasForget
	default:
		if w.Expect == 0 {
			g.shape |= hasNew
		}
		if snap = w.Snapshot; snap != nil {
			g.shape |= hasSnap
		}
		tail = appendTail([]byte{}, w.Inputs)
	}
	g.scopes = append(g.scopes, string(w.Scope))
	g.expect, g.version = append(g.expect, expect), append(g.version, version)
	g.due, g.mode = append(g.due, due), append(g.mode, mode)
	g.tail, g.snap = append(g.tail, tail), append(g.snap, snap)
	for i := range w.Rows {
		g.addRow(&w.Rows[i])
	}
}

func (g *group) addRow(r *attend.Row) {
	g.shape |= hasRows
	body := r.Body
	if body == nil {
		body = []byte{}
	}
	g.of = append(g.of, int64(len(g.scopes)))
	g.types, g.rscopes, g.ids = append(g.types, string(r.Type)), append(g.rscopes, string(r.Scope)), append(g.ids, string(r.ID))
	g.at, g.bodies = append(g.at, r.At.UnixMilli()), append(g.bodies, body)
	keys := listsOf(r.Type, r.Scope)
	for n := range keys {
		g.lists[n] = append(g.lists[n], keys[n])
	}
}

func (g *group) args() []any {
	args := []any{g.scopes, g.expect, g.version, g.due, g.tail, g.snap, g.mode}
	if g.shape&hasRows != 0 {
		args = append(args, g.of, g.types, g.rscopes, g.ids, g.at, g.bodies)
		for n := range g.lists {
			args = append(args, g.lists[n])
		}
	}
	return args
}

// weight is about how many bytes a write is in a statement.
func weight(w *attend.Write) int {
	n := len(w.Scope) + len(w.Snapshot) + 64
	for _, b := range w.Inputs {
		n += len(b) + 8
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		n += len(r.Scope) + len(r.ID) + len(r.Body) + 128
	}
	return n
}

// checkWrite refuses what would make the server refuse the whole group.
func checkWrite(w *attend.Write) error {
	if err := w.Scope.Check(); err != nil {
		return err
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		switch {
		case !validText(string(r.Scope)):
			return &attend.InvalidError{Field: "a row's scope", Want: wantText}
		case !validText(string(r.ID)):
			return &attend.InvalidError{Field: "a row's id", Want: wantText}
		case classOf(r.Type) < 0:
			return &attend.InvalidError{Field: "a row's type", Want: "decision, letter or verdict"}
		}
	}
	return nil
}

// maxName is what fits into an index, with room for the other columns.
const maxName = 1024

const wantText = "at most 1024 bytes of UTF-8 without NUL"

func validText(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}
