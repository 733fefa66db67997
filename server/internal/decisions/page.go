package decisions

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/attend-go/attend/server/internal/problem"
)

// maxReads is how many times the log is read for one page of a reader for whom
// there is little in it.
const maxReads = 10

// page answers with one page. Its more says that the log goes on behind it, even
// where it is empty.
func (h *handler) page(w http.ResponseWriter, r *http.Request, q Query) {
	var p Page
	truncated := false
	for range maxReads {
		var err error
		if p, err = h.feed.Read(r.Context(), q); err != nil {
			problem.Write(w, err)
			return
		}
		truncated = truncated || p.Truncated
		if len(p.Items)+len(p.Unreadable) > 0 || !p.More {
			break
		}
		q.After = p.Next
	}
	p.Truncated = truncated
	body, err := p.MarshalJSON()
	if err != nil {
		problem.Write(w, err)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	rc := http.NewResponseController(w)
	for len(body) > 0 {
		n := min(len(body), chunk)
		_ = rc.SetWriteDeadline(time.Now().Add(2 * h.SlowAfter)) // a writer without deadlines is a test's
		if _, err := w.Write(body[:n]); err != nil {
			return // whoever asked is gone, or does not read
		}
		body = body[n:]
	}
	if rc.Flush() == nil { // all of it is written: the deadline is not for the next request
		_ = rc.SetWriteDeadline(time.Time{})
	}
}

// MarshalJSON writes the page's wire form.
func (p Page) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"decisions":[`)
	for i := range p.Items {
		item, err := p.Items[i].Payload(0)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
	}
	rest, err := marshal(struct {
		Next       string       `json:"next"`
		Truncated  bool         `json:"truncated"`
		More       bool         `json:"more"`
		Unreadable []Unreadable `json:"unreadable,omitempty"`
	}{p.Next.String(), p.Truncated, p.More, p.Unreadable})
	if err != nil {
		return nil, err
	}
	b.WriteString("],")
	b.Write(rest[1:])
	return b.Bytes(), nil
}

// MarshalJSON writes the wire form of what could not be read.
func (u Unreadable) MarshalJSON() ([]byte, error) {
	return marshal(struct {
		Cursor string `json:"cursor"`
		Scope  string `json:"scope"`
		ID     string `json:"id"`
	}{u.Cursor.String(), string(u.Scope), string(u.ID)})
}
