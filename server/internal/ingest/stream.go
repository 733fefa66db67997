package ingest

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// Stream serves POST /v1/ingest/stream. The request stays open both ways: lines
// come in, and each is answered once it is committed, in the order of the
// lines.
func (in *Ingest) Stream() http.Handler { return http.HandlerFunc(in.stream) }

func (in *Ingest) stream(w http.ResponseWriter, r *http.Request) {
	who, err := in.enter(w, r)
	if err == nil {
		err = streamable(w, r)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // who can't is a test's
	if r.Header.Get("Expect") != "" {
		w.WriteHeader(http.StatusContinue) // nobody sends anything behind a 200 that comes first
	}
	b := &body{r: r.Body, control: control, silence: in.cfg.Idle}
	s := &stream{
		reader: reader{who: who, form: &lineFormat{noun: "line"}}, in: in, body: b,
		group: in.group(), refused: make(map[attend.Scope]refusal),
		answers: answers{w: w, control: control, stall: in.cfg.Stall, credit: in.cfg.Credit},
	}
	s.change.L = &s.mu
	b.on(in.cfg.Stopping, s.stop)
	defer b.close()
	s.answers.begin(r.ProtoMajor == 1)
	var commits sync.WaitGroup
	commits.Go(func() {
		s.commit(context.WithoutCancel(r.Context())) // what is read is committed, whoever goes away
		s.answers.totals(s.cut)
		b.linger(lingering)
	})
	s.read()
	commits.Wait()
	in.free(s.group)
}

// lingering is how long what a client sends is read and thrown away behind the
// totals: one that hears them stops sending, and whoever closes a connection
// with bytes unread takes away what the client has not read.
const lingering = 2 * time.Second

// streamable refuses bodies that can't be read line by line as they come.
func streamable(w http.ResponseWriter, r *http.Request) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || media != mediaLines || charset != "" && !strings.EqualFold(charset, "utf-8") {
		w.Header().Set("Accept-Post", mediaLines)
		return problem.With(http.StatusUnsupportedMediaType, "Content-Type: want "+mediaLines+", in UTF-8")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return problem.With(http.StatusUnsupportedMediaType, "Content-Encoding: a stream is not compressed")
	}
	return nil
}

// A stream is a request whose lines are committed as they come. Its handler's
// goroutine reads, another one commits and answers: while it does, the next
// group is read, until that is full; then the client is held back.
type stream struct {
	reader
	in      *Ingest
	body    *body
	answers answers
	down    *reason // nothing is tried any more
	refused map[attend.Scope]refusal

	mu     sync.Mutex
	change sync.Cond
	group  *group // gathers
	ready  bool   // it is to be committed: all that has come is in it, or it is full
	over   bool   // nothing more is gathered
	cut    error  // why, if the body was not read to its end
}

// stop ends the gathering.
func (s *stream) stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	if !ended(why) {
		s.cut = why
	}
	s.change.Broadcast()
}

// Read reads the body, for the cutter of lines. What is cut so far waits for
// nothing else.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	s.ready = !s.group.empty()
	s.change.Broadcast()
	s.mu.Unlock()
	return s.body.Read(p)
}

// read gathers the lines of the body.
func (s *stream) read() {
	buffer := s.in.buffers.Get().(*[]byte)
	defer s.in.buffers.Put(buffer)
	split := &lines{source: &source{r: s, limit: s.in.cfg.MaxLine, buf: *buffer}}
	for on := true; on; {
		b, err := split.next()
		switch {
		case err == nil:
			scope, why := s.reader.read(b)
			on = s.add(split.number(), scope, why)
		case errors.Is(err, attend.ErrTooLarge):
			on = s.add(split.number(), "", because(err, nil))
		default:
			s.stop(err)
			return
		}
	}
	_, _ = io.CopyBuffer(io.Discard, struct{ io.Reader }{s.body}, *buffer) // nothing of it counts any more
}

// add gathers the line that was read last, and reports whether it did.
func (s *stream) add(number int, scope attend.Scope, why *reason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.over && !s.fits(why) {
		s.ready = true
		s.change.Broadcast()
		s.change.Wait()
	}
	switch {
	case s.over:
		return false
	case why != nil:
		s.group.refuse(number, scope, why)
	default:
		s.group.add(number, &s.item)
	}
	if n := len(s.group.lines); n == startLines || n < startLines && s.group.bytes >= startBytes {
		s.ready = true
		s.change.Broadcast()
	}
	return true
}

func (s *stream) fits(why *reason) bool {
	if why == nil {
		return s.group.fits(&s.item)
	}
	return len(s.group.lines) < maxGroupLines && s.group.bytes < maxGroupBytes
}

// commit commits what is gathered, group by group, and answers it, until
// nothing more comes.
func (s *stream) commit(ctx context.Context) {
	spare := s.in.group()
	defer func() { s.in.free(spare) }()
	for {
		s.mu.Lock()
		for !s.over && (!s.ready || s.group.empty()) {
			s.change.Wait()
		}
		if s.group.empty() {
			s.mu.Unlock()
			return
		}
		g := s.group
		s.group, s.ready = spare, false
		s.change.Broadcast()
		s.mu.Unlock()

		s.settle(ctx, g)
		g.clear()
		spare = g
	}
}

// A refusal is why a scope's lines are not taken for now, and the last line that
// its client may have sent before it could know, as lines are counted for
// credit: those behind a line that is to be sent again must not overtake it.
type refusal struct {
	why   *reason
	until int
}

// settle commits a group and answers its lines.
func (s *stream) settle(ctx context.Context, g *group) {
	s.hold(g)
	s.in.commit(ctx, g)
	for i := range g.list {
		if x := &g.list[i]; x.Err != nil {
			if why := because(x.Err, nil); why.retry {
				s.refused[x.Scope] = refusal{why, s.answers.granted}
			}
		}
	}
	before := s.answers.rejected
	accepted, duplicates := g.counts()
	err := s.answers.group(g, accepted, duplicates)
	s.in.cfg.Rejected(s.answers.rejected - before)
	if why := g.failure(nil); why != nil && s.down == nil {
		s.down = why
		s.stop(&problem.Problem{Status: why.status, Detail: why.text})
	}
	if err != nil {
		s.stop(err)
		s.body.end(err)
	}
}

// hold keeps back what is not to be tried.
func (s *stream) hold(g *group) {
	if s.down == nil && len(s.refused) == 0 {
		return
	}
	tried := make([]bool, len(g.pushes))
	for i := range g.lines {
		n := g.lines[i].push
		if n < 0 || tried[n] {
			continue
		}
		tried[n] = true
		p := &g.pushes[n]
		if r := s.refused[p.scope]; s.answers.answered+i < r.until {
			p.why = r.why
		}
		if s.down != nil {
			p.why = s.down
		}
	}
	maps.DeleteFunc(s.refused, func(_ attend.Scope, r refusal) bool { return s.answers.answered+len(g.lines) >= r.until })
}
