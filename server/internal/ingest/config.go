package ingest

import (
	"cmp"
	"context"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// An Engine is what takes events in; an [engine.Engine] is one. It keeps nothing
// of a list behind the return of PushAll but the strings of events.
type Engine interface {
	// PushAll pushes each of a list, and sets what became of it.
	PushAll(ctx context.Context, list []engine.ScopePush)
}

// Config says what events are taken into, and within which limits. Engine is
// required; any other zero field means the default that stands beside it.
type Config struct {
	// Engine takes events in. Required.
	Engine Engine
	// Scope is a template that makes the scope of a CloudEvent from its
	// attributes, such as "{source}/{type}". An event that lacks one of them is
	// rejected. Default [DefaultScope], with "{source}" for an event without a
	// subject.
	Scope string

	MaxLine     int           // of a line, an item or an event, in bytes; default 1 MiB
	MaxBody     int64         // of a body, as it is sent and as it is decompressed, in bytes; default 64 MiB. A stream has no such limit
	MaxRejected int           // lines that an answer tells why they were rejected; more are only counted; default 1000
	Memory      int64         // for lines that wait for their commit, of all requests, in bytes; default 256 MiB. Each request has 64 KiB, or one line, beside it
	Inflaters   int           // zstd bodies at a time, each of which may take some 16 MiB; default 32. What comes beside them gets 429
	Credit      int           // lines that a client of a stream may have without an answer; default 1000
	Commit      time.Duration // how long the commit of a group may take; default 30 s
	Silence     time.Duration // how long a body may send nothing; default 30 s
	Idle        time.Duration // how long a stream may send nothing, not even a blank line; default 5 min
	Stall       time.Duration // how long a client may leave an answer unread; default 30 s

	// Rejected is told how many lines were not taken; what is taken the engine tells
	// of. It is called from many goroutines at once. Nil: nobody counts.
	Rejected func(n int)
	// Stopping is closed when the server stops: what is read is committed and
	// answered, what isn't is rejected. Nil: it never is.
	Stopping <-chan struct{}
}

// An Ingest serves the two routes. Its handlers may be called from many
// goroutines at once; they want an access.Principal in the request's context,
// and wrappers of the response writer must unwrap for http.ResponseController.
type Ingest struct {
	cfg      Config
	scope    *template
	budget   budget
	groups   sync.Pool // of *group
	buffers  sync.Pool // of *[]byte, plainBuffer long
	inflates inflates
}

// New returns an Ingest. An error is attend.ErrInvalid and names the option.
func New(c Config) (*Ingest, error) {
	if c.Engine == nil {
		return nil, &attend.InvalidError{Field: "Engine", Want: "a value, it is required"}
	}
	t, err := parseTemplate(c.Scope)
	if err != nil {
		return nil, err
	}
	for _, n := range []struct {
		name    string
		n, most int64
	}{
		{"MaxLine", int64(c.MaxLine), 64 << 20}, {"MaxBody", c.MaxBody, 1 << 50}, {"MaxRejected", int64(c.MaxRejected), 1 << 20},
		{"Memory", c.Memory, 1 << 50}, {"Inflaters", int64(c.Inflaters), 1 << 20}, {"Credit", int64(c.Credit), 1 << 30},
		{"Commit", int64(c.Commit), 1 << 62}, {"Silence", int64(c.Silence), 1 << 62},
		{"Idle", int64(c.Idle), 1 << 62}, {"Stall", int64(c.Stall), 1 << 62},
	} {
		if n.n < 0 || n.n > n.most {
			return nil, &attend.InvalidError{Field: n.name, Want: "a positive number that is not absurd"}
		}
	}
	c.MaxLine = cmp.Or(c.MaxLine, attend.MaxEventBytes)
	c.MaxBody = cmp.Or(c.MaxBody, 64<<20)
	c.MaxRejected = cmp.Or(c.MaxRejected, 1000)
	c.Memory = cmp.Or(c.Memory, 256<<20)
	c.Inflaters = cmp.Or(c.Inflaters, 32)
	c.Credit = cmp.Or(c.Credit, 1000)
	c.Commit = cmp.Or(c.Commit, 30*time.Second)
	c.Silence = cmp.Or(c.Silence, 30*time.Second)
	c.Idle = cmp.Or(c.Idle, 5*time.Minute)
	c.Stall = cmp.Or(c.Stall, 30*time.Second)
	if c.Rejected == nil {
		c.Rejected = func(int) {}
	}
	in := &Ingest{cfg: c, scope: t}
	in.budget.left.Store(c.Memory)
	in.groups.New = func() any { return &group{budget: &in.budget} }
	in.buffers.New = func() any { b := make([]byte, plainBuffer); return &b }
	in.inflates.slots = make(chan struct{}, c.Inflaters)
	return in, nil
}

func (in *Ingest) group() *group { return in.groups.Get().(*group) }

func (in *Ingest) free(g *group) {
	g.clear()
	in.groups.Put(g)
}

// stopping reports whether the server stops.
func (in *Ingest) stopping() bool {
	select {
	case <-in.cfg.Stopping:
		return true
	default:
		return false
	}
}
