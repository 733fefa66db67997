package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/attend-go/attend/server/internal/problem"
)

// maxWindow is how far back a zstd body may refer, which is what a decoder has
// to hold: what RFC 8878 asks of every decoder, and no more.
const maxWindow = 8 << 20

// inflates keeps decompressors for the next request.
type inflates struct {
	gzip, zstd sync.Pool
	slots      chan struct{} // zstd decoders in use
}

// An inflated is a body without its compression.
type inflated struct {
	io.Reader
	name string
	sent *body // below it
}

// open returns what is in a body, as its Content-Encoding says. done ends it.
func (f *inflates) open(b *body, h http.Header) (_ io.Reader, done func(), _ error) {
	name := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	switch name {
	case "", "identity":
		return b, func() {}, nil
	case "gzip", "x-gzip":
		in := &inflated{name: "gzip", sent: b}
		z, ok := f.gzip.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		in.Reader = &lazyGzip{z: z, r: b}
		return in, func() { z.Reset(new(bytes.Reader)); f.gzip.Put(z) }, nil
	case "zstd":
		select {
		case f.slots <- struct{}{}:
		default:
			return nil, nil, &problem.Problem{Status: http.StatusTooManyRequests, Detail: "too many zstd bodies at a time, try again later", Retry: time.Second}
		}
		z, ok := f.zstd.Get().(*zstd.Decoder)
		if !ok {
			var err error
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow))
			if err != nil {
				<-f.slots
				return nil, nil, fmt.Errorf("ingest: zstd: %w", err)
			}
		}
		in := &inflated{name: "zstd", sent: b}
		if err := z.Reset(b); err != nil {
			in.Reader = &failed{err}
		} else {
			in.Reader = z
		}
		return in, func() {
			if z.Reset(nil) == nil {
				f.zstd.Put(z)
			}
			<-f.slots
		}, nil
	default:
		return nil, nil, problem.With(http.StatusUnsupportedMediaType, "Content-Encoding: want gzip, zstd or identity, one alone")
	}
}

// Read tells what came over the wire from what is wrong with it.
func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	switch {
	case err == nil, ended(err) && (i.sent.err == nil || ended(i.sent.err)):
		return n, err
	case i.sent.err != nil && !ended(i.sent.err):
		return n, i.sent.err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return n, unreadable("zstd: want a window of at most " + strconv.Itoa(maxWindow) + " bytes")
	default:
		return n, unreadable("the body is no " + i.name + ", or only the beginning of one")
	}
}

// A lazyGzip reads the header when it is asked for the first bytes. A body of no
// bytes is an empty one.
type lazyGzip struct {
	z   *gzip.Reader
	r   io.Reader
	had bool
}

// Read is of [io.Reader].
func (l *lazyGzip) Read(p []byte) (int, error) {
	if !l.had {
		l.had = true
		if err := l.z.Reset(l.r); err != nil {
			return 0, err
		}
	}
	return l.z.Read(p)
}

// A failed body could not be opened.
type failed struct{ err error }

// Read is of [io.Reader].
func (f *failed) Read([]byte) (int, error) { return 0, f.err }

// A capped reads up to a limit, and then nothing but an end.
type capped struct {
	r     io.Reader
	left  int64
	limit int64
}

// Read is of [io.Reader].
func (c *capped) Read(p []byte) (int, error) {
	if c.left > 0 {
		if int64(len(p)) > c.left {
			p = p[:c.left]
		}
		n, err := c.r.Read(p)
		c.left -= int64(n)
		return n, err
	}
	var one [1]byte
	n, err := c.r.Read(one[:])
	if n > 0 {
		return 0, &http.MaxBytesError{Limit: c.limit}
	}
	return 0, err
}
