package redis

import (
	"cmp"
	"context"
	"crypto/rand"
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
// landed; it is never run twice. A group of more than 256 writes, 1,024 rows
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
//
// While anybody waits for rows, and for half a minute after that, the handle holds
// one connection of the client's BlockingPoolSize, which the app should leave room
// for: where there is none, waiting polls. A client with a ConnLifetime sends again what was under way when
// a connection's time is up. So that nothing is done twice, what Commit and
// Remove did is noted under a key for as long as their context may last and a
// second more, a minute at most. A handle of Open's needs no such notes.
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
		l.keeper = newKeeper(l.log, l.head, func(ctx context.Context) (int, error) { return s.rows.keep(ctx, o.Retain) })
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

// Log returns the store's decision log. It is an [attend.Waiter]. A reader of one
// prefix costs what it finds, except of the prefixes / and : alone, whose readers
// look at every row of their types.
func (s *Store) Log() attend.DecisionLog { return &s.rows }

// Load returns what is kept of the scope, as [attend.ScopeStore] says.
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return attend.Record{}, err
	}
	defer end()
	m, err := s.fields(ctx, scope)
	if err != nil {
		return attend.Record{}, s.failed(ctx, "load", err)
	}
	rec, err := record(m)
	return rec, s.failed(ctx, "load", err)
}

// fields reads a scope's hash, and then, in the same trip, the schema: what was
// read before it was changed is of ours.
func (s *Store) fields(ctx context.Context, scope attend.Scope) (map[string]string, error) {
	for try := 0; ; try++ {
		r := s.c.DoMulti(ctx, s.c.B().Hgetall().Key(s.keys.scope(scope)).Build().Pin(), s.c.B().Hget().Key(s.head).Field("schema").Build().Pin())
		m, err := r[0].AsStrMap()
		if err != nil {
			return nil, err
		}
		stored, err := r[1].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		if stored == schema {
			return m, nil
		}
		if err := s.adopt(ctx); err != nil || try == 3 {
			return nil, cmp.Or(err, errRestless)
		}
	}
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
	_, err = s.run(ctx, removeScript, call{
		keys: []string{s.head, s.keys.due(), s.keys.scope(scope), s.keys.noted(rand.Text())},
		args: []string{schema, string(scope), s.noting(ctx)},
	})
	return s.failed(ctx, "remove", err)
}
