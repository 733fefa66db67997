package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

// fileOf is a killFile with a fault.
func fileOf(fault string) Durable {
	return Durable{
		New:  func(t testing.TB) Place { return Place{Name: filepath.Join(t.TempDir(), "store")} },
		Open: func(place string) (attend.ScopeStore, error) { return openKillFile(place, fault) },
	}
}

// serverOf is a killFile with a fault, behind a server.
func serverOf(fault string) Durable {
	return Durable{
		New: func(t testing.TB) Place {
			s := newKillServer(t, fault)
			return Place{Name: s.address, Server: s}
		},
		Open:      func(place string) (attend.ScopeStore, error) { return &killClient{address: place}, nil },
		Processes: 2,
	}
}

// Right stores get through: in one process, and behind a server in several.
// Where ATTEND_KILLS asks for more, it is more.
func TestKillOneProcess(t *testing.T) {
	d := fileOf("")
	d.Kills = few(100)
	Kill(t, d)
}

func TestKillProcesses(t *testing.T) {
	d := serverOf("")
	d.Kills = few(100)
	Kill(t, d)
}

func TestKillServer(t *testing.T) {
	d := serverOf("")
	d.Kills = few(15)
	KillServer(t, d)
}

func TestKillServerThatLosesSeconds(t *testing.T) {
	d := serverOf("second")
	d.Kills = few(15)
	d.Loss = 10 * killSecond // on a machine that has much to do
	KillServer(t, d)
}

// few is a number of kills that shows that the suite works: the short form
// that stores take is longer.
func few(kills int) int {
	if os.Getenv("ATTEND_KILLS") != "" {
		return 0
	}
	return kills
}

// The suite would be worth nothing if a wrong store got through its short form.
func TestKillCatchesWrongStores(t *testing.T) {
	for _, c := range []struct{ fault, want string }{
		{"acks", "lost what it has read|is gone"},
		{"rows", "an event has 2 fates|an event has 3 fates"},
		{"state", "an acknowledged push is gone|is not in the log|rows say how"},
		{"half", "lost what it has read|is handed a row|is gone"},
		{"epochs", "changed its epoch"},
		{"due", "does not come to rest"},
		{"shows", "lost what it has read|saw other rows|is handed a row"},
		{"torn", "the last record is not whole"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			d := fileOf(c.fault)
			d.child(t.Name())
			t.Parallel()
			d.Kills, d.patience = 30, 3*time.Second
			d.defaults(0, 1)
			caught(t, d.kill(t.Context(), t.Name(), d.New(t), t.Logf), c.want)
		})
	}
}

func TestKillServerCatchesWrongStores(t *testing.T) {
	for _, c := range []struct {
		fault string
		loss  time.Duration
		want  string
	}{
		{"acks", 0, "lost what it has read|is gone|is not in the log|saw other rows"},
		{"epochs", 0, "another epoch|changed its epoch"},
		{"second", 0, "another epoch|changed its epoch"},
		{"second, same epoch", 2 * killSecond, "nobody can notice|was not noticed|in the same epoch"},
		{"seconds", 2 * killSecond, "may lose"},
		{"rows", 2 * killSecond, "fates"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			d := serverOf(c.fault)
			d.child(t.Name())
			t.Parallel()
			d.Kills, d.patience, d.Loss = 10, 5*time.Second, c.loss
			d.defaults(0, 1)
			caught(t, d.killServer(t.Context(), t.Name(), d.New(t), t.Logf), c.want)
		})
	}
}

// A child that does something else than to be one is told from a store that
// broke.
func TestKillChildThatIsNone(t *testing.T) {
	for _, c := range []struct{ name, test, want string }{
		{"no test", "TestThatThereIsNot", "comes to something else before Kill"},
		{"another call first", "TestKillOneProcess/part", "and came to TestKillOneProcess first"},
	} {
		d := fileOf("")
		d.Kills, d.patience = 3, 5*time.Second
		d.defaults(0, 1)
		if err := d.kill(t.Context(), c.test, d.New(t), t.Logf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// caught fails unless err is one of what it is to be.
func caught(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("a wrong store gets through")
	}
	t.Log(err)
	for want := range strings.SplitSeq(want, "|") {
		if strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("it is found for another reason, want %q", want)
}
