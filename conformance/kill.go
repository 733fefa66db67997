package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The kill suite is the crash suite with a real crash. Child processes run whole
// engines on the store under test while this process pushes events through them,
// keeps the list of what they acknowledged, and kills them with SIGKILL at random
// moments, or the server that they work on. In the end every scope comes to rest,
// and each acknowledged event must have one fate.
//
// Here times are real and no two runs are alike. A failure names its seed all the
// same: it repeats what was pushed and how long it took until each kill.

// A Durable tells [Kill] and [KillServer] how to make the store under test.
type Durable struct {
	// New makes a place for an empty store, and skips the test where it can't.
	// It is called once, in the process that kills.
	New func(t testing.TB) Place
	// Open opens the store in a place, and makes it where there is none. It is
	// called in the child processes, and in the one that kills. Its log keeps
	// everything. A store that is an [io.Closer] is closed in the end, in the
	// process that kills; children never get that far.
	Open func(place string) (attend.ScopeStore, error)
	// Processes is how many child processes hold the store at once, 0: one. With
	// more than one, the process that kills holds it as well, and reads the log
	// meanwhile.
	Processes int
	// Loss is how long a server that is killed may have kept a commit to itself,
	// such as a second. What is lost is then noticed by the log's epoch. Zero:
	// nothing acknowledged is lost. It means nothing to [Kill].
	Loss time.Duration
	// Kills is how many there are. Zero: 200 for [Kill] and 50 for [KillServer].
	// ATTEND_KILLS, if set, is the number for [Kill], and a quarter of it that
	// for [KillServer].
	Kills int
	// Seed decides what is pushed and how long it takes until each kill. Zero:
	// ATTEND_KILL_SEED, else one at random.
	Seed uint64

	patience time.Duration // for what comes sooner unless something broke; zero: a minute
}

// A Place is where a store under test lives.
type Place struct {
	// Name is what Open is handed: a file, or a URL and a prefix. It is passed
	// to child processes in their environment. Messages do not show it.
	Name string
	// Server is what [KillServer] kills, such as one of package servers that
	// nobody else uses. Nil: there is none, or it is left alone.
	Server Server
}

// A Server is a database server that can be killed.
type Server interface {
	// Kill ends the server with SIGKILL and returns when it is gone.
	Kill() error
	// Restart starts it again on its data, and returns when it answers.
	Restart(ctx context.Context) error
}

// Kill kills processes that work on a store, and starts others on what is left.
//
// The child processes run the test binary again, with the calling test alone,
// and come to this call once more. So a test makes one such call, before anything
// else, and what children must not do stands in New.
func Kill(t *testing.T, d Durable) {
	t.Helper()
	d.child(t.Name())
	d.defaults(200, 1)
	if err := d.kill(t.Context(), t.Name(), d.New(t), t.Logf); err != nil {
		t.Fatal(err)
	}
}

// KillServer kills and restarts the server that processes work on, while they
// live on. It is called as [Kill] is.
func KillServer(t *testing.T, d Durable) {
	t.Helper()
	d.child(t.Name())
	d.defaults(50, 4)
	place := d.New(t)
	if place.Server == nil {
		t.Fatal("the place has no Server")
	}
	if err := d.killServer(t.Context(), t.Name(), place, t.Logf); err != nil {
		t.Fatal(err)
	}
}

// defaults fills in what d leaves out. share is the part of ATTEND_KILLS.
func (d *Durable) defaults(kills, share int) {
	if n, err := strconv.Atoi(os.Getenv("ATTEND_KILLS")); err == nil && n > 0 {
		kills = max(n/share, 1)
	}
	if d.Kills == 0 {
		d.Kills = kills
	}
	if n, err := strconv.ParseUint(os.Getenv("ATTEND_KILL_SEED"), 10, 64); err == nil && d.Seed == 0 {
		d.Seed = n
	}
	if d.Seed == 0 {
		d.Seed = rand.Uint64()
	}
	d.Processes = max(d.Processes, 1)
	if d.patience == 0 {
		d.patience = time.Minute
	}
}

// shares reports whether the process that kills may hold the store beside the
// children.
func (d *Durable) shares() bool { return d.Processes > 1 }

// kill is Kill, which returns what broke.
func (d Durable) kill(ctx context.Context, test string, place Place, logf func(string, ...any)) error {
	d.Loss = 0
	r := newKillRun(ctx, d, test, place)
	defer r.end()
	err := r.start()
	if err == nil {
		err = r.killChildren()
	}
	return r.conclude(err, logf)
}

// killServer is KillServer, which returns what broke.
func (d Durable) killServer(ctx context.Context, test string, place Place, logf func(string, ...any)) error {
	r := newKillRun(ctx, d, test, place)
	r.serves = true
	defer r.end()
	err := r.start()
	if err == nil {
		err = r.killServer()
	}
	return r.conclude(err, logf)
}

// conclude lets the scopes rest and audits what is left.
func (r *killRun) conclude(err error, logf func(string, ...any)) error {
	var sum string
	if err == nil {
		err = r.rest()
	}
	if err == nil {
		sum, err = r.audit()
	}
	if err != nil {
		if cause := context.Cause(r.ctx); cause != nil {
			err = cause // of what failed because of it
		}
		return fmt.Errorf("%w\n  seed %d (ATTEND_KILL_SEED), after %d kills of %d", err, r.d.Seed, len(r.deaths()), r.d.Kills)
	}
	logf("seed %d: %s", r.d.Seed, sum)
	return nil
}
