package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/redis/rueidis"
)

// A Store is an [attend.ScopeStore] in Redis: one process's handle on what may
// have many. Its methods may be called from many goroutines at once.
//
// A call that gets no answer returns an error, though what it wrote may have
// landed; it is never sent twice. A group of more than 256 writes, 1,024 rows
// or 4 MiB is committed in parts, one behind the other: each write is whole,
// but other calls may come in between. What Redis itself refuses is reachable
// as a *[rueidis.RedisError].
type Store struct {
	*link
	rows decisionLog
}

// Open connects to the server or cluster that the URL names, as
// redis://user:password@host:port/db, and opens the store under o.Prefix there.
// It makes one where there is none. The forms of URL are those of
// [rueidis.ParseURL].
//
// An error is [attend.ErrInvalid] for an option or URL, [attend.ErrNewer] for a
// store that a newer release made, or says what is wrong with the server: its
// version, its role, its eviction policy, or the rights of the user. No error
// holds the URL's user or password.
func Open(ctx context.Context, url string, o Config) (*Store, error) {
	return open(ctx, url, o, newStore)
}

// New is [Open] on a client of the app's, which Close leaves open. The client
// must not send what reads to replicas, which lag. Use DisableCache where the
// app doesn't cache.
func New(ctx context.Context, c rueidis.Client, o Config) (*Store, error) {
	return on(ctx, c, o, newStore)
}

func newStore(ctx context.Context, c rueidis.Client, own bool, o Config) (*Store, error) {
	k := keyspace(o.Prefix)
	l, err := newLink(ctx, c, own, o, k.head(), k.logs())
	if err != nil {
		return nil, err
	}
	s := &Store{link: l}
	s.rows = decisionLog{link: l}
	if o.Retain != (attend.Retain{}) {
		l.keeper = newKeeper(l, func(ctx context.Context) error { return s.rows.keep(ctx, o.Retain) })
	}
	return s, nil
}

// Close ends this handle: every later call and every Wait that blocks answers
// [attend.ErrClosed]. It returns when what the handle does in the background
// has ended. Other handles, and the data, are not touched. Closing it again
// does nothing. The error is nil.
func (s *Store) Close() error {
	s.close()
	return nil
}

// Log returns the store's decision log. It is an [attend.Waiter].
func (s *Store) Log() attend.DecisionLog { return &s.rows }

// Load returns what is kept of the scope, as [attend.ScopeStore] says.
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return attend.Record{}, err
	}
	defer end()
	m, err := s.c.Do(ctx, s.c.B().Hgetall().Key(s.keys.scope(scope)).Build()).AsStrMap()
	if err != nil {
		return attend.Record{}, s.failed(ctx, "load", err)
	}
	rec, err := record(m)
	return rec, s.failed(ctx, "load", err)
}

// record reads a scope's hash: its version and the length of its tail in field
// v, the snapshot in s, and the inputs in fields named by their place.
func record(m map[string]string) (attend.Record, error) {
	if len(m) == 0 {
		return attend.Record{}, nil
	}
	var rec attend.Record
	version, count, _ := strings.Cut(m["v"], ":")
	var err error
	if rec.Version, err = strconv.ParseUint(version, 10, 63); err != nil || rec.Version == 0 {
		return attend.Record{}, fmt.Errorf("%w: a key of kind scope has no version", attend.ErrCorrupt)
	}
	n, err := strconv.Atoi(count)
	fields := 1 + n
	if snapshot, ok := m["s"]; ok {
		rec.Snapshot = []byte(snapshot)
		fields++
	}
	if err != nil || n < 0 || len(m) != fields {
		return attend.Record{}, fmt.Errorf("%w: a key of kind scope has other fields than its own", attend.ErrCorrupt)
	}
	if n > 0 {
		rec.Tail = make([][]byte, n)
	}
	for i := range rec.Tail {
		in, ok := m[strconv.Itoa(i+1)]
		if !ok {
			return attend.Record{}, fmt.Errorf("%w: a key of kind scope lacks an input", attend.ErrCorrupt)
		}
		rec.Tail[i] = []byte(in)
	}
	return rec, nil
}

// Remove forgets the scope, as [attend.ScopeStore] says.
func (s *Store) Remove(ctx context.Context, scope attend.Scope) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	_, err = s.run(ctx, removeScript, call{keys: []string{s.keys.due(), s.keys.scope(scope)}, args: []string{string(scope)}})
	return s.failed(ctx, "remove", err)
}
