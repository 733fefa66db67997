package ingest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// An answers writes what a client of a stream is told. A client that does not
// read keeps a write from ending for stall, and then has broken the stream.
type answers struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	credit  int // lines that may be without an answer

	accepted, duplicates, rejected int

	answered int // lines
	granted  int // lines that the client may send, those answered included
	buf      bytes.Buffer
	err      error
}

// flushAnswers is how much is written at once.
const flushAnswers = 32 << 10

// begin answers the request, and grants the first credit.
func (a *answers) begin(closing bool) {
	h := a.w.Header()
	h.Set("Content-Type", mediaLines)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // for a proxy that would gather answers
	if closing {
		h.Set("Connection", "close") // its deadlines are nobody else's
	}
	a.w.WriteHeader(http.StatusOK)
	a.grant(a.credit)
	a.flush()
}

func (a *answers) grant(n int) {
	a.granted += n
	a.buf.WriteString(`{"credit":`)
	a.number(n)
	a.buf.WriteString("}\n")
}

func (a *answers) number(n int) {
	a.buf.Write(strconv.AppendInt(a.buf.AvailableBuffer(), int64(n), 10))
}

// group answers the lines of a committed group. An error says that nobody reads.
func (a *answers) group(g *group, accepted, duplicates int) error {
	a.accepted += accepted
	a.duplicates += duplicates
	g.results(nil, func(number int, scope attend.Scope, why *reason) {
		if why == nil {
			a.buf.WriteString(`{"line":`)
			a.number(number)
			a.buf.WriteString(`,"ok":true}` + "\n")
		} else {
			a.rejected++
			a.json(rejection{number, scope, why.text, why.retry})
		}
		if a.buf.Len() >= flushAnswers {
			a.write()
		}
	})
	a.answered += len(g.lines)
	if n := a.answered + a.credit - a.granted; n >= max(1, a.credit/4) {
		a.grant(n)
	}
	a.flush()
	return a.err
}

// totals ends the answers.
func (a *answers) totals(cut error) {
	last := struct {
		Accepted   int    `json:"accepted"`
		Duplicates int    `json:"duplicates"`
		Rejected   int    `json:"rejected"`
		Error      string `json:"error,omitempty"` // why the stream was not read to its end
		Retry      bool   `json:"retry,omitempty"` // it may be opened anew
	}{Accepted: a.accepted, Duplicates: a.duplicates, Rejected: a.rejected}
	if cut != nil {
		p := problem.Of(cut)
		last.Error, last.Retry = p.Detail, again(p.Status)
	}
	a.json(last)
	a.flush()
}

func (a *answers) json(v any) {
	enc := json.NewEncoder(&a.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil && a.err == nil {
		a.err = err // cannot be: counts and strings have a JSON form
	}
}

// write hands over what is gathered.
func (a *answers) write() {
	if a.err == nil {
		_ = a.control.SetWriteDeadline(time.Now().Add(a.stall)) // who can't has the server's own
		_, a.err = a.w.Write(a.buf.Bytes())
	}
	a.buf.Reset()
}

// flush sends what is written. Then there is no deadline: that of HTTP/2 ends a
// stream in which nobody writes, too.
func (a *answers) flush() {
	a.write()
	if a.err == nil {
		a.err = a.control.Flush()
		_ = a.control.SetWriteDeadline(time.Time{})
	}
}
