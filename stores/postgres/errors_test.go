package postgres_test

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// Connection strings that are wrong in many ways, each with a password that no
// error may show.
func TestErrorsHoldNoPassword(t *testing.T) {
	good, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t"
	host := good.Host
	for _, conn := range []string{
		"postgres://attend:" + secret + "@127.0.0.1:1/attend",
		"postgres://attend:" + secret + "@" + host + "/attend?sslmode=disable",
		"postgres://attend:" + secret + "@" + host + "/nothing?sslmode=disable",
		"postgres://attend:" + secret + "%@" + host + "/attend",
		"postgres://attend:" + secret + ":x@y@" + host + "/attend",
		"postgres://attend:x" + secret + "/y@" + host + "/attend",
		"postgres://attend:" + secret + "@[::1/attend",
		"postgres://attend@" + host + "/attend?password=" + secret + "&sslmode=what",
		"postgres://attend:" + secret + "@" + host + "/attend?pool_max_conns=many",
		"host=127.0.0.1 port=1 user=attend password='" + secret + "' sslmode=what",
		"host=127.0.0.1 port=1 user=attend password=" + secret,
		"user=attend password = " + secret + " nonsense",
		"postgres:/attend:" + secret + "@x/y",
	} {
		ctx := t.Context()
		c := postgres.Config{Prefix: newPrefix()}
		_, open := postgres.Open(ctx, conn, c)
		_, events := postgres.OpenEventLog(ctx, conn, c)
		migrate := postgres.MigrateURL(ctx, conn, c)
		for name, err := range map[string]error{"Open": open, "OpenEventLog": events, "MigrateURL": migrate} {
			if err == nil {
				t.Errorf("%s with a connection string that is wrong gives no error", name)
				continue
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("an error of %s, of type %T, shows the password", name, e)
				}
			}
		}
	}
}

// The driver's error is within reach.
func TestServersErrorIsWithinReach(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := postgres.Config{Prefix: newPrefix()}
	if err := postgres.Migrate(t.Context(), pool, c); err != nil {
		t.Fatal(err)
	}
	s := storeOn(t, pool, c)
	dropTables(t, pool, c.Prefix)
	_, err := s.Load(t.Context(), "ops")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42P01" {
		t.Errorf("Load without a table: %v, want the server's own error within it", err)
	}
}

// A call on a server that says nothing ends with its time limit, or with its
// context if that is sooner; and goes on when the server does.
func TestServerThatFallsSilent(t *testing.T) {
	p, through := newProxy(t, serverURL(t))
	direct := newPool(t, serverURL(t))
	c := migrated(t, direct, postgres.Config{})
	c.Timeout = 300 * time.Millisecond
	pool := newPool(t, through)
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	version := put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}, Due: noon, Rows: []attend.Row{decisionRow("ops", "d")}})
	_, at := ids(t, s.Log(), attend.Query{})
	p.hush(true)
	calls := map[string]func(context.Context) error{
		"Load":   func(ctx context.Context) error { _, err := s.Load(ctx, "ops"); return err },
		"Remove": func(ctx context.Context) error { return s.Remove(ctx, "other") },
		"Commit": func(ctx context.Context) error {
			_, err := s.Commit(ctx, []attend.Write{{Scope: "new", Inputs: [][]byte{{1}}}})
			return err
		},
		"Due": func(ctx context.Context) error {
			for _, err := range s.Due(ctx, noon) {
				return err
			}
			return nil
		},
		"Read": func(ctx context.Context) error {
			for _, err := range s.Log().Read(ctx, attend.Query{}) {
				return err
			}
			return nil
		},
		"Wait":   func(ctx context.Context) error { return s.Log().(attend.Waiter).Wait(ctx, attend.Query{After: at}) },
		"Trim":   func(ctx context.Context) error { return s.Log().Trim(ctx, attend.Retain{Count: 5}, noon) },
		"Append": func(ctx context.Context) error { return l.Append(ctx, "ops", []attend.Event{{ID: "e", Name: "n"}}) },
	}
	for name, call := range calls {
		began := time.Now()
		if err := call(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s on a server that says nothing: %v, want context.DeadlineExceeded", name, err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%s on a server that says nothing took %v, with a limit of 300 ms", name, d)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s whose context ends: %v, want context.DeadlineExceeded", name, err)
		}
		cancel()
	}
	p.hush(false)
	eventually(t, "the store works again", func() bool {
		rec, err := s.Load(t.Context(), "ops")
		return err == nil && rec.Version == version
	})
}

// Close ends what is under way, and leaves a pool alone that is not its own.
func TestCloseEndsCalls(t *testing.T) {
	p, through := newProxy(t, serverURL(t))
	c := migrated(t, newPool(t, serverURL(t)), postgres.Config{})
	pool := newPool(t, through)
	s := storeOn(t, pool, c)
	l := logOn(t, pool, c)
	p.hush(true)
	ended := make(chan error, 3)
	go func() { _, err := s.Load(context.Background(), "ops"); ended <- err }()
	go func() { ended <- s.Log().(attend.Waiter).Wait(context.Background(), attend.Query{}) }()
	go func() { ended <- l.Append(context.Background(), "ops", []attend.Event{{ID: "e", Name: "n"}}) }()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	s.Close()
	l.Close()
	for range 3 {
		if err := <-ended; !errors.Is(err, attend.ErrClosed) {
			t.Errorf("a call under way when the store is closed: %v, want an error that is ErrClosed", err)
		}
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("Close took %v", d)
	}
	p.hush(false)
	eventually(t, "the pool works on", func() bool { return pool.Ping(t.Context()) == nil })
}

// A store that Open made has a pool of its own, which ends with it.
func TestOpenAndClose(t *testing.T) {
	u := serverURL(t)
	c := migrated(t, newPool(t, u), postgres.Config{})
	s, err := postgres.Open(t.Context(), u, c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := postgres.OpenEventLog(t.Context(), u, c)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{{1}}})
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "e", Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.Close()
		l.Close()
	}
	if _, err := s.Load(t.Context(), "ops"); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Load after Close: %v, want an error that is ErrClosed", err)
	}
	if err := l.Append(t.Context(), "ops", nil); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Append after Close: %v, want an error that is ErrClosed", err)
	}
}

// A counter counts the statements of a pool.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An answer is none to ask for again, whatever was made of it.
func TestAnswersAreNotAskedForAgain(t *testing.T) {
	c := migrated(t, newPool(t, serverURL(t)), postgres.Config{})
	cfg, err := pgxpool.ParseConfig(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	var count counter
	cfg.ConnConfig.Tracer = &count
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	addEvents(t, l, 1, 1)
	if _, err := pool.Exec(t.Context(), postgres.Named(c, "UPDATE {events} SET body = '{'")); err != nil {
		t.Fatal(err)
	}
	before := count.n.Load()
	if _, err := s.Log().Find(t.Context(), "unknown", ""); !errors.Is(err, attend.ErrNotFound) {
		t.Errorf("Find of an unknown id: %v, want an error that is ErrNotFound", err)
	}
	for _, err := range l.Batches(t.Context(), "ops", "") {
		if !errors.Is(err, attend.ErrCorrupt) {
			t.Errorf("Batches of an event that can't be read: %v, want an error that is ErrCorrupt", err)
		}
	}
	if n := count.n.Load() - before; n != 2 {
		t.Errorf("two calls with an answer took %d statements, want 2", n)
	}
}

// A row that Migrate wrote and that is gone is an error, and nothing is lost in
// silence.
func TestMissingRows(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	version := put(t, s, attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "a"), decisionRow("ops", "b")}})
	addEvents(t, l, 1, 1)
	check := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, attend.ErrCorrupt) || !strings.Contains(err.Error(), c.Prefix) {
			t.Errorf("%s: %v, want an error that is ErrCorrupt and names the table", name, err)
		}
	}
	remove := func(table string) {
		if _, err := pool.Exec(t.Context(), postgres.Named(c, "DELETE FROM "+table)); err != nil {
			t.Fatal(err)
		}
	}
	remove("{turns}")
	_, err := s.Commit(t.Context(), []attend.Write{{Scope: "ops", Expect: version, Rows: []attend.Row{decisionRow("ops", "c")}}})
	check("Commit without a turn", err)
	if rec, err := s.Load(t.Context(), "ops"); err != nil || rec.Version != version {
		t.Errorf("after a Commit that failed, Load = version %d, %v, want %d", rec.Version, err, version)
	}
	check("Append without a turn", l.Append(t.Context(), "ops", []attend.Event{{ID: "e", Name: "n"}}))
	check("Trim without a turn", s.Log().Trim(t.Context(), attend.Retain{Count: 1}, noon))
	remove("{logs}")
	_, err = s.Log().Bounds(t.Context())
	check("Bounds", err)
	_, err = s.Log().Find(t.Context(), "a", "")
	check("Find", err)
	for err := range errorsOf(s.Log(), attend.Query{}) {
		check("Read", err)
	}
	check("Wait", s.Log().(attend.Waiter).Wait(t.Context(), attend.Query{}))
	err = nil
	for _, err = range l.Batches(t.Context(), "ops", "") {
	}
	check("Batches", err)
	check("WaitEvents", l.WaitEvents(t.Context(), "ops", ""))
	for name, open := range openers(pool, c) {
		if err := open(); !errors.Is(err, postgres.ErrNotMigrated) {
			t.Errorf("%s: %v, want an error that is ErrNotMigrated", name, err)
		}
	}
}

// A closed store says so, whatever it is asked.
func TestClosedComesFirst(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	s.Close()
	l.Close()
	_, commit := s.Commit(t.Context(), []attend.Write{{Scope: "\x00"}})
	_, load := s.Load(t.Context(), "\x00")
	for name, err := range map[string]error{
		"Commit":          commit,
		"Load":            load,
		"Trim":            s.Log().Trim(t.Context(), attend.Retain{}, noon),
		"Append":          l.Append(t.Context(), "", nil),
		"Append an event": l.Append(t.Context(), "ops", []attend.Event{{}}),
	} {
		if !errors.Is(err, attend.ErrClosed) {
			t.Errorf("%s after Close: %v, want an error that is ErrClosed", name, err)
		}
	}
}

// What no row can be named is found nowhere, and is no error.
func TestNamesThatNothingHas(t *testing.T) {
	pool := newPool(t, serverURL(t))
	c := migrated(t, pool, postgres.Config{})
	s, l := storeOn(t, pool, c), logOn(t, pool, c)
	put(t, s, attend.Write{Scope: "ops", Rows: []attend.Row{decisionRow("ops", "d")}})
	addEvents(t, l, 1, 1)
	for _, name := range []string{"\x00", "\xff", "ops\x00", strings.Repeat("x", 2000)} {
		if rec, err := s.Load(t.Context(), attend.Scope(name)); err != nil || rec.Version != 0 {
			t.Errorf("Load of %.9q = version %d, %v, want 0", name, rec.Version, err)
		}
		if err := s.Remove(t.Context(), attend.Scope(name)); err != nil {
			t.Errorf("Remove of %.9q: %v", name, err)
		}
		if got, _, gap := eventIDs(t, l, attend.Scope(name), ""); len(got) > 0 || gap {
			t.Errorf("Batches of %.9q = %v, gap %v, want none", name, got, gap)
		}
		queries := []attend.Query{{Prefix: attend.Prefix(name)}, {Types: []attend.RowType{attend.RowType(name)}}}
		for _, q := range queries {
			if got, _ := ids(t, s.Log(), q); len(got) > 0 {
				t.Errorf("Read of %+.20q = %v, want no rows", q, got)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		for _, q := range queries {
			if err := s.Log().(attend.Waiter).Wait(ctx, q); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait for %.9q: %v, want its context's error", name, err)
			}
		}
		if err := l.WaitEvents(ctx, attend.Scope(name), ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitEvents of %.9q: %v, want its context's error", name, err)
		}
		cancel()
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: math.MaxInt, Verdicts: math.MaxInt, Age: math.MaxInt64}, noon); err != nil {
		t.Errorf("Trim that keeps all there can be: %v", err)
	}
}
