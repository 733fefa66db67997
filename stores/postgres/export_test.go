package postgres

import (
	"context"

	attend "github.com/attend-go/attend/core"
)

// CommitStatement is what a Commit of these writes sends.
func CommitStatement(s *Store, writes []attend.Write) (sql string, args []any) {
	g := newGroup(writes)
	return s.texts.of(g.shape), g.args()
}

// AppendStatement is what an Append of one event sends.
func AppendStatement(l *EventLog, scope, id string, body []byte) (sql string, args []any) {
	return l.cfg.named(appendText(l.base())), []any{[]string{scope}, []string{id}, [][]byte{body}}
}

// Waiting is how many calls of Append wait to be taken along.
func Waiting(l *EventLog) int {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return len(l.queue.waiting)
}

// Named puts the names of c's tables into a text of SQL.
func Named(c Config, sql string) string {
	c, err := c.withDefaults()
	if err != nil {
		panic(err)
	}
	return c.named(sql)
}

// Steps is how many steps of the schema there are.
func Steps() int { return len(schema()) }

// Lists shows what lists a row is in, and which one a reader of a prefix reads.
func Lists(t attend.RowType, s attend.Scope) [4]int64 { return listsOf(t, s) }

// ListFor shows which list a reader of a prefix reads.
func ListFor(t attend.RowType, p attend.Prefix) (int64, int) { return listFor(t, p) }

// Heard reports whether a store hears notifications.
func Heard(s *Store) bool { return s.log.hub.heard.Load() }

// Strict reports whether a store's statements bring their isolation level.
func Strict(s *Store) bool { return s.strict.Load() }

// SplitTail cuts a tail.
func SplitTail(b []byte) ([][]byte, error) { return splitTail(b) }

// Code is the server's code of an error.
func Code(err error) string { return code(err) }

// ReadStatement is what the first page of a Read sends.
func ReadStatement(s *Store, q attend.Query) (sql string, args []any) {
	return s.log.pageText(q, firstRows)
}

// WaitStatement is what a Wait sends.
func WaitStatement(s *Store, q attend.Query) (sql string, args []any) { return s.log.waitText(q) }

// Walk goes back from the newest row.
func Walk(count int, back func(before int64, step int) (int64, error)) (int64, error) {
	return walk(count, back)
}

// Retain applies a store's retention, as its keeper does now and then.
func Retain(ctx context.Context, s *Store) { s.retain(ctx) }

// RetainEvents is Retain for an event log.
func RetainEvents(ctx context.Context, l *EventLog) { l.retain(ctx) }
