package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A killRun is one call of Kill or KillServer.
type killRun struct {
	d      Durable
	test   string
	place  Place
	serves bool // the server is killed, not the children

	ctx     context.Context // ends with the first violation, which is its cause
	fail    context.CancelCauseFunc
	begun   time.Time
	book    *killBook
	workers []*killWorker
	readers []*killReader
	store   attend.ScopeStore // this process's handle; nil where it has none
	lives   atomic.Int64
	kills   atomic.Int64 // that were begun

	stopReaders context.CancelFunc
	reading     sync.WaitGroup
	stopLoad    context.CancelFunc
	loading     sync.WaitGroup

	mu   sync.Mutex
	died []killDeath
}

// A killDeath is one kill.
type killDeath struct {
	life    int       // of the child, 0: the server
	at      time.Time // just before the signal
	gone    time.Time // it had ended
	noticed bool      // the server's log has another epoch since
}

func newKillRun(ctx context.Context, d Durable, test string, place Place) *killRun {
	r := &killRun{d: d, test: test, place: place, begun: time.Now(), book: newKillBook()}
	r.ctx, r.fail = context.WithCancelCause(ctx)
	for i, q := range killQueries() {
		r.readers = append(r.readers, &killReader{index: i, query: q, lossy: d.Loss > 0})
	}
	for i := range d.Processes {
		r.workers = append(r.workers, &killWorker{run: r, random: r.random(uint64(i)), changed: make(chan struct{})})
	}
	return r
}

// random is a source of numbers of its own for each use.
func (r *killRun) random(use uint64) *rand.Rand { return rand.New(rand.NewPCG(r.d.Seed, use)) }

// since is a moment as messages show it.
func (r *killRun) since(t time.Time) string {
	return t.Sub(r.begun).Round(100 * time.Microsecond).String()
}

func (r *killRun) deaths() []killDeath {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.died
}

func (r *killRun) bury(d killDeath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.died = append(r.died, d)
}

// start opens the store where this process may hold it, reads its log, and
// starts producers. They wait for children.
func (r *killRun) start() error {
	if r.d.shares() || r.serves {
		if err := r.open(); err != nil {
			return err
		}
		r.read()
	}
	ctx, stop := context.WithCancel(r.ctx)
	r.stopLoad = stop
	for i := range killProducers {
		r.loading.Go(func() { r.produce(ctx, i) })
	}
	return nil
}

func (r *killRun) open() (err error) {
	if r.store, err = r.d.Open(r.place.Name); err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	return nil
}

func (r *killRun) close() error {
	c, ok := r.store.(io.Closer)
	r.store = nil
	if !ok {
		return nil
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	return nil
}

// read starts the readers in this process, where they go on from what they have.
func (r *killRun) read() {
	ctx, stop := context.WithCancel(r.ctx)
	r.stopReaders = stop
	for _, f := range r.readers {
		r.reading.Go(func() {
			if err := f.follow(ctx, r.store.Log(), r.serves); err != nil && ctx.Err() == nil {
				r.fail(fmt.Errorf("a reader of the log: %w", err))
			}
		})
	}
}

// end leaves no goroutine, process or handle.
func (r *killRun) end() {
	r.fail(context.Canceled)
	for _, w := range r.workers {
		if l := w.life.Load(); l != nil {
			l.kill()
			<-l.gone
		}
	}
	r.loading.Wait()
	r.reading.Wait()
	if r.store != nil {
		// What broke before is what there is to say.
		_ = r.close()
	}
}

// killChildren kills the children until there were enough.
func (r *killRun) killChildren() error {
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() {
			for r.kills.Add(1) <= int64(r.d.Kills) {
				if err := w.liveAndDie(r.ctx); err != nil {
					r.fail(err)
					return
				}
			}
		})
	}
	all.Wait()
	r.quiet()
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	if n := r.book.acknowledged(); n < r.d.Kills/4 {
		return fmt.Errorf("only %d pushes were acknowledged between %d kills: the store, or the machine, is too slow for this to say anything", n, r.d.Kills)
	}
	return nil
}

// quiet ends the load.
func (r *killRun) quiet() {
	r.stopLoad()
	r.loading.Wait()
}

// killServer kills the server under the children, which live on.
func (r *killRun) killServer() error {
	for _, w := range r.workers {
		if err := w.start(r.ctx); err != nil {
			return err
		}
	}
	random := r.random(1 << 32)
	epoch, err := r.epoch()
	if err != nil {
		return err
	}
	back := r.begun
	for n := range r.d.Kills {
		if err := r.recovered(back); err != nil {
			return err
		}
		up := time.Duration(random.Int64N(int64(150 * time.Millisecond)))
		if n%5 == 4 { // some of what was acknowledged is too old to be lost
			up += r.d.Loss
		}
		if err := pause(r.ctx, up); err != nil {
			return err
		}
		death := killDeath{at: time.Now()}
		if err := r.place.Server.Kill(); err != nil {
			return fmt.Errorf("the server's Kill: %w", err)
		}
		death.gone = time.Now()
		if err := pause(r.ctx, time.Duration(random.Int64N(int64(50*time.Millisecond)))); err != nil {
			return err
		}
		if err := r.place.Server.Restart(r.ctx); err != nil {
			return fmt.Errorf("the server's Restart: %w", err)
		}
		back = time.Now()
		now, err := r.epoch()
		if err != nil {
			return err
		}
		death.noticed, epoch = now != epoch, now
		r.bury(death)
		if death.noticed && r.d.Loss == 0 {
			return errors.New("the log has another epoch after the server was killed, though it may lose nothing")
		}
	}
	if err := r.recovered(back); err != nil {
		return err
	}
	r.quiet()
	return nil
}

// recovered returns once each child has acknowledged something that it was asked
// for after a moment.
func (r *killRun) recovered(since time.Time) error {
	end := time.Now().Add(r.d.patience)
	for _, w := range r.workers {
		for w.served.Load() <= since.UnixNano() {
			if time.Now().After(end) {
				return fmt.Errorf("the engine of child %d did not recover: it acknowledged nothing within %v after the server was back; its last error: %s",
					w.life.Load().number, r.d.patience, w.lastError())
			}
			if err := pause(r.ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// epoch asks for the log's epoch, until the store has found its server again.
func (r *killRun) epoch() (string, error) {
	end := time.Now().Add(r.d.patience)
	for {
		ctx, cancel := context.WithDeadline(r.ctx, end)
		b, err := r.store.Log().Bounds(ctx)
		cancel()
		if err == nil {
			return b.Epoch, nil
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("the store does not recover: Bounds goes on failing %v after the server was back: %w", r.d.patience, err)
		}
		if err := pause(r.ctx, 5*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// pause waits, and returns ctx's cause if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
