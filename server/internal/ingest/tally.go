package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// A rejection is a line that was not taken.
type rejection struct {
	Line  int          `json:"line"`
	Scope attend.Scope `json:"scope,omitempty"`
	Error string       `json:"error"`
	Retry bool         `json:"retry,omitempty"` // the same line may be taken another time
}

// A tally is what became of the lines of a body.
type tally struct {
	accepted, duplicates, rejected int

	most int         // of list
	list []rejection // some of what was rejected
	why  [4]int      // rejected, by the order of statuses
	cut  error       // why the body was not read to its end
}

// statuses are those of a body of which nothing was taken, the first that
// fits. Failures of the server come first, then what all lines have in common.
var statuses = [...]int{
	http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusForbidden, http.StatusRequestEntityTooLarge,
}

func (t *tally) reject(line int, scope attend.Scope, why *reason) {
	t.rejected++
	if i := slices.Index(statuses[:], why.status); i >= 0 {
		t.why[i]++
	}
	if len(t.list) < t.most {
		t.list = append(t.list, rejection{line, scope, why.text, why.retry})
	}
}

// sorted are the rejections in the order of lines: those of a commit are known
// later than those of lines behind it.
func (t *tally) sorted() []rejection {
	slices.SortFunc(t.list, func(a, b rejection) int { return cmp.Compare(a.Line, b.Line) })
	if t.list == nil {
		return []rejection{}
	}
	return t.list
}

// status is what to answer, and whether lines were taken, or nothing was to be.
func (t *tally) status() (int, bool) {
	if t.cut != nil {
		p := problem.Of(t.cut)
		if t.accepted+t.duplicates > 0 && again(p.Status) {
			return http.StatusOK, true // who tries all of it again would not hear that
		}
		return p.Status, false
	}
	if t.rejected == 0 || t.accepted+t.duplicates > 0 {
		return http.StatusOK, true
	}
	for i, n := range t.why {
		if n == t.rejected || n > 0 && again(statuses[i]) {
			return statuses[i], false
		}
	}
	return http.StatusBadRequest, false
}

// again reports whether a status asks for the same request another time.
func again(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// answer is the answer to a body.
func (t *tally) answer(w http.ResponseWriter) {
	list := t.sorted()
	more := t.rejected - len(list)
	status, fine := t.status()
	if !fine {
		p := &problem.Problem{Status: status, More: map[string]any{"accepted": t.accepted, "duplicates": t.duplicates, "rejected": list}}
		switch {
		case t.cut != nil:
			own := problem.Of(t.cut)
			p.Detail, p.Retry = own.Detail, own.Retry
		case len(list) > 0:
			p.Detail = "no line was taken; line " + strconv.Itoa(list[0].Line) + ": " + list[0].Error
		default:
			p.Detail = "no line was taken"
		}
		if again(status) && p.Retry == 0 {
			p.Retry = time.Second
		}
		if more > 0 {
			p.More["rejectedMore"] = more
		}
		p.Write(w)
		return
	}
	body, err := t.body(list, more)
	if err != nil {
		problem.Write(w, err) // cannot be: counts and strings have a JSON form
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked is gone
}

// body is the answer's JSON.
func (t *tally) body(list []rejection, more int) ([]byte, error) {
	if len(list) == 0 && more == 0 { // as a rule, and for single events the cost counts
		b := strconv.AppendInt([]byte(`{"accepted":`), int64(t.accepted), 10)
		b = strconv.AppendInt(append(b, `,"duplicates":`...), int64(t.duplicates), 10)
		return append(b, `,"rejected":[]}`+"\n"...), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Accepted   int         `json:"accepted"`
		Duplicates int         `json:"duplicates"`
		Rejected   []rejection `json:"rejected"`
		More       int         `json:"rejectedMore,omitempty"`
	}{t.accepted, t.duplicates, list, more})
	return b.Bytes(), err
}
