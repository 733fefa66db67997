package mcpevents

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A ledger writes to the store. Writes that come while one is under way go
// together in the next.
type ledger struct {
	store SubscriptionStore

	mu    sync.Mutex
	queue []*ledgerWrite
	busy  bool
}

type ledgerWrite struct {
	SubscriptionWrite
	done    chan struct{}
	version uint64
	err     error
}

const (
	maxLedgerGroup = 256
	ledgerTimeout  = 15 * time.Second
)

// write applies one write. It answers 0 when somebody else's came first.
func (l *ledger) write(ctx context.Context, w SubscriptionWrite) (uint64, error) {
	r := &ledgerWrite{SubscriptionWrite: w, done: make(chan struct{})}
	l.mu.Lock()
	l.queue = append(l.queue, r)
	start := !l.busy
	l.busy = true
	l.mu.Unlock()
	if start {
		go l.drain() // ends when nobody waits for it
	}
	select {
	case <-r.done:
		return r.version, r.err
	case <-ctx.Done():
		return 0, ctx.Err() // the outcome is unknown
	}
}

func (l *ledger) drain() {
	for {
		group := l.take()
		if len(group) == 0 {
			return
		}
		if err := l.apply(group); errors.Is(err, context.DeadlineExceeded) { // it hangs: so would each of them
			for _, r := range group {
				r.err = err
			}
		} else if err != nil && len(group) > 1 {
			// One of them may be what the store refuses. What landed after all
			// is a conflict now, and its writer looks again.
			for _, r := range group {
				if err := l.apply([]*ledgerWrite{r}); err != nil {
					r.err = err
				}
			}
		} else if err != nil {
			group[0].err = err
		}
		for _, r := range group {
			close(r.done)
		}
	}
}

// take removes the next group from the queue; no key is in it twice.
func (l *ledger) take() []*ledgerWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	var group, rest []*ledgerWrite
	keys := make(map[string]bool)
	for _, r := range l.queue {
		if keys[r.Key] || len(group) == maxLedgerGroup {
			rest = append(rest, r)
			continue
		}
		keys[r.Key] = true
		group = append(group, r)
	}
	l.queue = rest
	l.busy = len(group) > 0
	return group
}

func (l *ledger) apply(group []*ledgerWrite) error {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerTimeout)
	defer cancel()
	writes := make([]SubscriptionWrite, len(group))
	for i, r := range group {
		writes[i] = r.SubscriptionWrite
	}
	versions, err := l.store.Write(ctx, writes)
	if err != nil {
		return err
	}
	if len(versions) != len(writes) {
		return errors.New("mcpevents: SubscriptionStore.Write answered for another number of writes")
	}
	for i, r := range group {
		r.version, r.err = versions[i], nil
	}
	return nil
}

// A stored value with the version it has in the store; nil and 0: there is none.
type stored[T any] struct {
	value   *T
	version uint64
}

// A verdict is what becomes of a value that was looked at.
type verdict int

const (
	leave verdict = iota
	put
	drop
)

const maxRaces = 50

// A codec is how a kind of value is kept.
type codec[T any] struct {
	decode func([]byte) (*T, error)
	encode func(*T) ([]byte, error)
	due    func(*T) time.Time
}

// load reads one value.
func load[T any](ctx context.Context, l *ledger, c codec[T], key string) (stored[T], error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	r, err := l.store.Load(ctx, key)
	if err != nil || r.Version == 0 {
		return stored[T]{}, err
	}
	v, err := c.decode(r.Value)
	return stored[T]{v, r.Version}, err
}

// change reads a value, lets f say what it is to be, and writes that, again
// until nobody else's write came between. F gets a copy of the value, or nil; it
// returns the new value, and may be called several times. When known is not nil
// it is taken for what is stored, the first time.
func change[T any](ctx context.Context, l *ledger, c codec[T], key string, known *stored[T],
	f func(v *T) (*T, verdict, error)) (stored[T], error) {
	for race := range maxRaces {
		var now stored[T]
		var err error
		if known != nil {
			now, known = *known, nil
		} else if now, err = load(ctx, l, c, key); err != nil {
			return stored[T]{}, err
		}
		var old *T
		if now.value != nil {
			old = new(*now.value)
		}
		v, what, err := f(old)
		if err != nil || what == leave {
			return now, err
		}
		w := SubscriptionWrite{Key: key, Expect: now.version}
		if what == put {
			if w.Value, err = c.encode(v); err != nil {
				return stored[T]{}, err
			}
			w.Due = c.due(v)
		} else if v = nil; now.version == 0 {
			return stored[T]{}, nil
		}
		version, err := l.write(ctx, w)
		if err != nil {
			return stored[T]{}, err
		}
		if version != 0 {
			if what == drop {
				version = 0
			}
			return stored[T]{v, version}, nil
		}
		if race > 1 {
			time.Sleep(rand.N(time.Duration(race) * time.Millisecond))
		}
	}
	return stored[T]{}, errors.New("mcpevents: the subscription store: others wrote first, again and again")
}
