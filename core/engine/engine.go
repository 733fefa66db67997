package engine

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// An Engine runs attend on one store. Its methods may be called from many
// goroutines at once. It has no goroutine of its own but within [Engine.Run]:
// whoever brings an input commits it, and what others bring meanwhile is
// committed as one group by the next. So there is nothing to close.
type Engine struct {
	cfg    Config
	store  attend.ScopeStore
	policy *machine.Policy
	pure   attend.PureJudge // nil: the judge needs a lease
	id     uint64           // random: the writer and owner that the states know
	number atomic.Uint64    // the last running number (E29)
	log    *slog.Logger

	seed    maphash.Seed
	shards  [shardCount]shard
	queue   queue
	alarm   alarm
	calls   pool // judge calls
	sends   pool // deliveries and dead letters
	account breaker
	lost    lostClaims

	gate    sync.RWMutex // between starting work and the end of Run
	running atomic.Bool  // Run is active: claims may be made
	ran     atomic.Bool  // Run was called and has not returned
	work    sync.WaitGroup
	glances atomic.Int64                    // calls of Facts and Capture under way
	workCtx atomic.Pointer[context.Context] // of calls and deliveries; ends after the grace

	attached sync.Map // of attachment to struct{}
}

// New returns an engine. It opens and starts nothing. An error is
// attend.ErrInvalid and names the option.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	policy, err := cfg.Policy()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, store: cfg.Store, policy: policy, id: newID(), log: cfg.Logger,
		seed: maphash.MakeSeed(),
	}
	if p, ok := cfg.Judge.(attend.PureJudge); ok && cfg.Facts == nil && cfg.Capture == nil {
		e.pure = p
	}
	for i := range e.shards {
		e.shards[i].init(cfg.ResidentBytes / shardCount)
	}
	e.alarm.init(time.Now())
	e.calls.free, e.sends.free = cfg.MaxCalls, cfg.MaxCalls
	e.calls.account = &e.account
	return e, nil
}

// trace tells the observer, where there is one.
func (e *Engine) trace(t attend.Trace) {
	if e.cfg.Observer != nil {
		e.cfg.Observer(t)
	}
}

// Window returns what is piling up in a scope: its open window, as the store
// has it. A scope without one has an empty window.
func (e *Engine) Window(ctx context.Context, scope attend.Scope) (attend.Window, error) {
	s, err := e.State(ctx, scope)
	if err != nil {
		return attend.Window{}, err
	}
	w := s.Window()
	w.Scope = scope
	return w, nil
}

// State returns the state of a scope as the store has it, the zero State for an
// unknown one.
func (e *Engine) State(ctx context.Context, scope attend.Scope) (machine.State, error) {
	if err := scope.Check(); err != nil {
		return machine.State{}, err
	}
	r, err := load(ctx, e.store, scope)
	return r.state, err
}

// Log returns the store's decision log.
func (e *Engine) Log() attend.DecisionLog { return e.store.Log() }
