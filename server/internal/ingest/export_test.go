package ingest

import (
	"errors"
	"net/http"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// Parser is a handler that reads a body of lines as Bodies does, gathers it into
// groups, and throws those away: what no ingest is faster than.
func (in *Ingest) Parser() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer := in.buffers.Get().(*[]byte)
		defer in.buffers.Put(buffer)
		s := &source{limit: in.cfg.MaxLine, r: r.Body, buf: *buffer}
		split, form, err := in.form(r, s)
		if err != nil {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		g := in.group()
		defer in.free(g)
		q := &reader{who: access.Anyone(), form: form}
		t := tally{}
		for {
			b, err := split.next()
			if err != nil && !errors.Is(err, attend.ErrTooLarge) {
				break
			}
			if _, why := q.read(b); err != nil || why != nil {
				t.rejected++
				continue
			}
			if t.accepted++; !g.fits(&q.item) {
				g.clear()
			}
			g.add(split.number(), &q.item)
		}
		t.answer(w)
	})
}
