package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A killWorker is a place for one child at a time.
type killWorker struct {
	run     *killRun
	random  *rand.Rand
	opening time.Duration            // about how long it takes until a child is ready
	life    atomic.Pointer[killLife] // the last one that was started
	served  atomic.Int64             // when the newest request was made that was acknowledged, in Unix nanoseconds
	failed  atomic.Pointer[string]   // the last error that a request was answered with

	mu      sync.Mutex
	serving *killLife     // the one that is ready, nil: none
	changed chan struct{} // closed when serving changes
}

// serve says who is ready. It replaces old, or else changes nothing.
func (w *killWorker) serve(old, l *killLife) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.serving == old {
		w.serving = l
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// ready returns the child that is ready, and waits for one; nil when ctx ends.
func (w *killWorker) ready(ctx context.Context) *killLife {
	for {
		w.mu.Lock()
		l, changed := w.serving, w.changed
		w.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *killWorker) lastError() string {
	if e := w.failed.Load(); e != nil {
		return *e
	}
	return "none"
}

// A killLife is one child process.
type killLife struct {
	run    *killRun
	worker *killWorker
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    lineWriter // to in
	errors output

	begun  time.Time
	ready  chan struct{} // closed when it has opened the store
	gone   chan struct{} // closed when it has ended and all that it said was heard
	killed atomic.Bool
	acks   chan struct{} // a token an acknowledgement, as far as there is room

	mu      sync.Mutex
	waiting map[int]chan *killAnswer // by request
}

// start starts a child and returns when it is ready.
func (w *killWorker) start(ctx context.Context) error {
	l, err := w.begin()
	if err != nil {
		return err
	}
	return l.awaitReady(ctx)
}

func (w *killWorker) begin() (*killLife, error) {
	r := w.run
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec := killSpec{Test: r.test, Place: r.place.Name, Seed: r.d.Seed, Life: int(r.lives.Add(1))}
	if r.store == nil {
		for _, f := range r.readers {
			spec.After = append(spec.After, f.place())
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var pattern []string
	for part := range strings.SplitSeq(r.test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	l := &killLife{
		run: r, worker: w, number: spec.Life, begun: time.Now(),
		ready: make(chan struct{}), gone: make(chan struct{}), acks: make(chan struct{}, 100), waiting: make(map[int]chan *killAnswer),
	}
	l.cmd = exec.Command(self, "-test.run="+strings.Join(pattern, "/"), "-test.timeout=0", "-test.count=1")
	l.cmd.Env = append(os.Environ(), killEnv+"="+string(text))
	l.cmd.Stderr = &l.errors
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	l.out.w = l.in
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	w.life.Store(l)
	go l.listen(out)
	return l, nil
}

// listen hears the child to its end.
func (l *killLife) listen(out io.Reader) {
	err := lines(out, l.hear)
	if err != nil {
		l.kill() // it may be stuck in a pipe that nobody reads
	}
	werr := l.cmd.Wait()
	l.worker.serve(l, nil)
	defer close(l.gone) // when what there is to say of it has been said
	report := l.errors.String()
	switch {
	case strings.Contains(report, "DATA RACE"), strings.Contains(report, "panic: "):
		l.run.fail(fmt.Errorf("child %d: %s", l.number, report))
	case err != nil:
		l.run.fail(fmt.Errorf("child %d says what is none of our lines (%w): %s comes to something else before Kill, or the store writes to standard output\n%s",
			l.number, err, l.run.test, report))
	case !l.killed.Load():
		l.run.fail(fmt.Errorf("child %d ended by itself (%v)\n%s", l.number, werr, report))
	}
}

// hear takes one line.
func (l *killLife) hear(r *killReply) error {
	switch {
	case r.Broken != "":
		err := fmt.Errorf("child %d, which found what %s left: %s", l.number, l.run.before(), r.Broken)
		l.run.fail(err)
		return nil
	case r.Ready:
		close(l.ready)
		l.worker.serve(nil, l)
	case r.Taken != nil:
		l.run.book.take(*r.Taken, l.number)
	case r.Row != nil:
		if err := l.run.readers[r.Row.Reader].add(*r.Row); err != nil {
			l.run.fail(fmt.Errorf("a reader of the log, after %s: %w", l.run.before(), err))
		}
	case r.Answer != nil:
		l.mu.Lock()
		c := l.waiting[r.Answer.Number]
		delete(l.waiting, r.Answer.Number)
		l.mu.Unlock()
		if c != nil {
			c <- r.Answer
		}
		select {
		case l.acks <- struct{}{}:
		default:
		}
	}
	return nil
}

// ask sends a request and returns the answer, or nil where the child dies before
// it has given one.
func (l *killLife) ask(ctx context.Context, q *killRequest) *killAnswer {
	c := make(chan *killAnswer, 1)
	l.mu.Lock()
	l.waiting[q.Number] = c
	l.mu.Unlock()
	// A child that is gone can't be written to; that it is gone is heard below.
	_ = l.out.line(q)
	select {
	case a := <-c:
		return a
	case <-ctx.Done():
		return nil
	case <-l.gone:
	}
	select {
	case a := <-c:
		return a
	default:
		return nil
	}
}

func (l *killLife) unanswered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (l *killLife) kill() {
	l.killed.Store(true)
	// One that has ended needs none.
	_ = l.cmd.Process.Kill()
}

func (l *killLife) awaitReady(ctx context.Context) error {
	t := time.NewTimer(l.run.d.patience)
	defer t.Stop()
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.gone:
		return fmt.Errorf("child %d ended before it had opened the store", l.number)
	case <-t.C:
		return fmt.Errorf("Open still runs in child %d after %v, on what %s left", l.number, l.run.d.patience, l.run.before())
	}
}

// liveAndDie starts a child and kills it at a random moment: while it opens the
// store, right behind an acknowledgement, or whenever.
func (w *killWorker) liveAndDie(ctx context.Context) error {
	l, err := w.begin()
	if err != nil {
		return err
	}
	// Drawn in any case, so that what follows does not depend on how long things took.
	how, part, acks := w.random.IntN(100), w.random.Float64(), 1+w.random.IntN(20)
	longest := time.NewTimer(w.run.d.patience)
	defer longest.Stop()
	if how < 15 && w.opening > 0 {
		err = pause(ctx, time.Duration(part*float64(w.opening)))
	} else if err = l.awaitReady(ctx); err == nil {
		w.opening = (3*w.opening + time.Since(l.begun)) / 4
		moment := time.NewTimer(time.Duration(part * float64(80*time.Millisecond)))
		defer moment.Stop()
		if how < 55 {
			moment.Reset(2 * time.Second)
		} else {
			acks = -1
		}
		for alive := true; alive && acks != 0; {
			select {
			case <-l.acks:
				acks--
			case <-moment.C:
				alive = false
			case <-l.gone:
				alive = false
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	if err != nil {
		return err
	}
	death := killDeath{life: l.number, at: time.Now()}
	l.kill()
	select {
	case <-l.gone:
	case <-longest.C:
		return fmt.Errorf("child %d is still there %v after SIGKILL", l.number, w.run.d.patience)
	}
	death.gone = time.Now()
	w.run.bury(death)
	return context.Cause(ctx)
}

// before says what was killed last.
func (r *killRun) before() string {
	all := r.deaths()
	if len(all) == 0 {
		return "nobody"
	}
	d := all[len(all)-1]
	if d.life == 0 {
		return "the server, killed at " + r.since(d.at) + ","
	}
	return fmt.Sprintf("child %d, killed at %s,", d.life, r.since(d.at))
}

// An output keeps the first of what is written to it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const most = 16 << 10
	o.buf.Write(b[:min(len(b), max(0, most-o.buf.Len()))])
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
