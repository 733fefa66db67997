package ingest

import (
	"context"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/attend-go/attend/server/access"
	"github.com/attend-go/attend/server/internal/problem"
)

// The media types of bodies.
const (
	mediaLines      = "application/x-ndjson"
	mediaJSON       = "application/json"
	mediaCloudEvent = "application/cloudevents+json"
	mediaCloudBatch = "application/cloudevents-batch+json"
)

// Bodies serves POST /v1/ingest. It answers when each line of the body has its
// answer.
func (in *Ingest) Bodies() http.Handler { return http.HandlerFunc(in.bodies) }

func (in *Ingest) bodies(w http.ResponseWriter, r *http.Request) {
	who, err := in.enter(w, r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	if r.ContentLength > in.cfg.MaxBody {
		problem.Write(w, &http.MaxBytesError{Limit: in.cfg.MaxBody})
		return
	}
	s := &source{limit: in.cfg.MaxLine}
	split, form, err := in.form(r, s)
	if err != nil {
		for _, media := range [...]string{mediaLines, mediaJSON, mediaCloudEvent, mediaCloudBatch} {
			w.Header().Add("Accept-Post", media)
		}
		problem.Write(w, err)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // a body may take longer than an answer
	b := &body{r: &capped{r.Body, in.cfg.MaxBody, in.cfg.MaxBody}, control: control, silence: in.cfg.Silence}
	b.on(in.cfg.Stopping, b.end)
	defer b.close()
	plain, done, err := in.inflates.open(b, r.Header)
	if err != nil {
		if p := problem.Of(err); p.Status == http.StatusUnsupportedMediaType {
			w.Header().Set("Accept-Encoding", "gzip, zstd")
		}
		problem.Write(w, err)
		return
	}
	defer done()
	s.r = &capped{plain, in.cfg.MaxBody, in.cfg.MaxBody}
	buffer := in.buffers.Get().(*[]byte)
	defer in.buffers.Put(buffer)
	s.buf = *buffer

	q := &request{
		in: in, ctx: context.WithoutCancel(r.Context()), // what is read is committed, whoever goes away
		reader: reader{who: who, form: form},
		tally:  tally{most: in.cfg.MaxRejected},
		group:  in.group(), spare: in.group(),
	}
	if _, own := form.(*lineFormat); !own {
		q.fields = cloudFields
	}
	q.read(split)
	q.finish()
	if len(q.list) < smallAnswer {
		q.answer(w)
		return
	}
	_ = control.SetWriteDeadline(time.Now().Add(in.cfg.Stall)) // who can't has the server's own
	q.answer(w)
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

// An answer of fewer rejections than this fits into a connection's buffers, so
// that nobody can keep it from ending.
const smallAnswer = 16

// enter says who asks, and refuses who may bring nothing, ever or now.
func (in *Ingest) enter(w http.ResponseWriter, r *http.Request) (*access.Principal, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, problem.With(http.StatusMethodNotAllowed, "want POST")
	}
	who := access.From(r.Context())
	if !who.Ingest {
		return nil, problem.With(http.StatusForbidden, "this token may not bring events")
	}
	if in.stopping() {
		return nil, errStopped
	}
	return who, nil
}

// form says how a body is cut and read.
func (in *Ingest) form(r *http.Request, s *source) (splitter, format, error) {
	values := r.Header.Values("Content-Type")
	media, params := "", map[string]string(nil)
	if len(values) == 1 {
		media, params, _ = mime.ParseMediaType(values[0]) // what can't be read is none of ours
	}
	utf8 := params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8")
	binary := len(r.Header.Values("Ce-Specversion")) > 0 // its content type is that of the data
	switch {
	case len(values) > 1:
		return nil, nil, problem.With(http.StatusUnsupportedMediaType, "Content-Type: want one")
	case media == mediaCloudEvent && utf8:
		return &array{source: s, single: true}, &cloudFormat{noun: "item", scope: in.scope}, nil
	case media == mediaCloudBatch && utf8:
		return &array{source: s, only: true}, &cloudFormat{noun: "item", scope: in.scope}, nil
	case strings.HasPrefix(media, "application/cloudevents"):
	case binary:
		return &entire{source: s}, &headerFormat{cloudFormat{noun: "body", scope: in.scope}, r.Header}, nil
	case media == mediaLines && utf8:
		return &lines{source: s}, &lineFormat{noun: "line"}, nil
	case media == mediaJSON && utf8:
		return &array{source: s}, &lineFormat{noun: "item"}, nil
	}
	return nil, nil, problem.With(http.StatusUnsupportedMediaType, "Content-Type: want "+mediaLines+", "+mediaJSON+", "+
		mediaCloudEvent+" or "+mediaCloudBatch+", in UTF-8, or the ce- headers of a CloudEvent in binary mode")
}
