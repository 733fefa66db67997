package mcpevents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func ExampleNewReceiver() {
	r, err := NewReceiver(ReceiverConfig{URL: "https://client.example.net/events"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events", nil)) // as an http.Server does
	fmt.Println(w.Code)
	// Output: 405
}

// A sending is a delivery as a test makes it.
type sending struct {
	method, id, stamp, sub, body string
	secret                       Secret
	header                       map[string]string
	reader                       io.Reader
}

// send gives a delivery to a receiver, right but for what is set.
func send(r *Receiver, s sending) *httptest.ResponseRecorder {
	if s.method == "" {
		s.method = http.MethodPost
	}
	if s.stamp == "" {
		s.stamp = strconv.FormatInt(time.Now().Unix(), 10)
	}
	if s.id == "" {
		s.id = "msg_1"
	}
	if s.sub == "" {
		s.sub = "sub_1"
	}
	var body io.Reader = strings.NewReader(s.body)
	if s.reader != nil {
		body = s.reader
	}
	req := httptest.NewRequest(s.method, "/hook", body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(headerID, s.id)
	req.Header.Set(headerTimestamp, s.stamp)
	req.Header.Set(headerSubscription, s.sub)
	if !s.secret.IsZero() {
		req.Header.Set(headerSignature, "v1,"+encodeSum(s.secret, s.id, s.stamp, []byte(s.body)))
	}
	for name, value := range s.header {
		if req.Header.Set(name, value); value == missing {
			req.Header.Del(name)
		}
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

func newReceiver(t testing.TB, c ReceiverConfig) *Receiver {
	t.Helper()
	c.URL = testURL
	r, err := NewReceiver(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const oneEvent = `{"eventId":"e1","name":"tick","timestamp":"2026-11-03T09:15:02Z","data":{},"cursor":"c1"}`

// taker takes everything that comes to a box and keeps the bodies.
func taker(ctx context.Context, b *inbox) <-chan string {
	out := make(chan string, 100)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.ready:
				list := b.take(100)
				for _, h := range list {
					out <- string(h.body)
				}
				settleAll(list, true)
			}
		}
	}()
	return out
}

func TestReceiverAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReceiver(t, ReceiverConfig{MaxBody: 2000})
		b := r.open()
		r.bind(b, "sub_1")
		got := taker(ctx, b)
		secret := b.secret(0)
		stamp := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
		for _, c := range []struct {
			name string
			s    sending
			want int
		}{
			{"good", sending{}, 200},
			{"charset", sending{header: map[string]string{"Content-Type": "application/json; charset=utf-8"}}, 200},
			{"GET", sending{method: "GET"}, 405},
			{"PUT", sending{method: "PUT"}, 405},
			{"text", sending{header: map[string]string{"Content-Type": "text/plain"}}, 400},
			{"no content type", sending{header: map[string]string{"Content-Type": missing}}, 400},
			{"no id", sending{header: map[string]string{headerID: missing}}, 400},
			{"no timestamp", sending{header: map[string]string{headerTimestamp: missing}}, 400},
			{"no signature", sending{header: map[string]string{headerSignature: missing}}, 400},
			{"no subscription", sending{header: map[string]string{headerSubscription: missing}}, 400},
			{"long id", sending{id: strings.Repeat("x", 5000)}, 400},
			{"timestamp is text", sending{stamp: "yesterday"}, 400},
			{"timestamp with a fraction", sending{stamp: stamp(0) + ".5"}, 400},
			{"not JSON", sending{body: "x"}, 400},
			{"array", sending{body: "[]"}, 400},
			{"deep", sending{body: `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`}, 400},
			{"too large", sending{body: `{"x":"` + strings.Repeat("x", 2000) + `"}`}, 413},
			{"too large, chunked", sending{reader: iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 3000)))}, 413},
			{"broken off", sending{reader: iotest.ErrReader(io.ErrUnexpectedEOF)}, 400},
			{"unknown subscription", sending{sub: "sub_2"}, 503},
		} {
			if c.s.body == "" {
				c.s.body = oneEvent
			}
			c.s.secret = secret
			if w := send(r, c.s); w.Code != c.want {
				t.Errorf("%s: status %d, want %d", c.name, w.Code, c.want)
			}
			settle()
			if n := len(got); (n == 1) != (c.want == 200) {
				t.Errorf("%s: %d deliveries were handed over", c.name, n)
			}
			for len(got) > 0 {
				<-got
			}
		}
		r.Close()
		if w := send(r, sending{body: oneEvent, secret: secret}); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("closed: status %d, want 503 with Retry-After", w.Code)
		}
	})
}

func TestCE55WrongSignatureHasNoEffect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReceiver(t, ReceiverConfig{})
		b := r.open()
		r.bind(b, "sub_1")
		got := taker(ctx, b)
		for _, body := range []string{oneEvent, "not even JSON", `{"type":"terminated","error":{"code":1}}`, `{"type":"verification","challenge":"x"}`} {
			if w := send(r, sending{body: body, secret: NewSecret()}); w.Code != 401 || w.Body.Len() != 0 {
				t.Errorf("%q: status %d, body %q, want 401 and none", body, w.Code, w.Body)
			}
		}
		// The bytes that count are those that came, not what they mean.
		for _, header := range []string{oneEvent + " ", strings.Replace(oneEvent, `"c1"`, `"c\u0031"`, 1)} {
			stamp := strconv.FormatInt(time.Now().Unix(), 10)
			w := send(r, sending{body: header, header: map[string]string{headerSignature: "v1," + encodeSum(b.secret(0), "msg_1", stamp, []byte(oneEvent))}})
			if w.Code != 401 {
				t.Errorf("%q signed as another text of the same JSON: status %d, want 401", header, w.Code)
			}
		}
		settle()
		if len(got) != 0 {
			t.Errorf("%d deliveries were handed over, want none", len(got))
		}
	})
}

func TestCE56StaleTimestamps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReceiver(t, ReceiverConfig{})
		b := r.open()
		r.bind(b, "sub_1")
		taker(ctx, b)
		for _, c := range []struct {
			off  int64
			want int
		}{{0, 200}, {-300, 200}, {300, 200}, {-301, 400}, {301, 400}, {-1 << 40, 400}, {1 << 40, 400}} {
			s := sending{body: oneEvent, stamp: strconv.FormatInt(time.Now().Unix()+c.off, 10), secret: b.secret(0)}
			if w := send(r, s); w.Code != c.want {
				t.Errorf("%d s off: status %d, want %d", c.off, w.Code, c.want)
			}
		}
		for _, stamp := range []string{"9223372036854775807", "-9223372036854775808", "99999999999999999999"} {
			if w := send(r, sending{body: oneEvent, stamp: stamp, secret: b.secret(0)}); w.Code != 400 {
				t.Errorf("timestamp %s: status %d, want 400", stamp, w.Code)
			}
		}
	})
}

func TestCE58ChallengeNeedsARegisteredSecret(t *testing.T) {
	r := newReceiver(t, ReceiverConfig{})
	body := `{"type":"verification","challenge":"n-\"1"}`
	if w := send(r, sending{body: body, secret: NewSecret()}); w.Code != 401 {
		t.Errorf("without subscriptions: status %d, want 401", w.Code)
	}
	a, b := r.open(), r.open()
	if w := send(r, sending{body: body, secret: NewSecret()}); w.Code != 401 || w.Body.Len() != 0 {
		t.Errorf("a foreign secret: status %d, body %q, want 401 and none", w.Code, w.Body)
	}
	for i := range 3 { // the id is new, then known: echoed each time
		w := send(r, sending{body: body, sub: "sub_b", secret: b.secret(0)})
		if w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"challenge":"n-\"1"}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("time %d: status %d, body %q, want the challenge", i+1, w.Code, w.Body)
		}
	}
	if a.bound() || !b.knows("sub_b") {
		t.Errorf("the id is bound to the wrong subscription")
	}
	// Two servers may give the same id: each secret finds its own.
	if w := send(r, sending{body: body, sub: "sub_b", secret: a.secret(0)}); w.Code != 200 || !a.knows("sub_b") {
		t.Errorf("the same id of another server: status %d", w.Code)
	}
	for _, bad := range []string{`{"type":"verification"}`, `{"type":"verification","challenge":5}`, `{"type":"verification","challenge":null}`} {
		if w := send(r, sending{body: bad, sub: "sub_b", secret: a.secret(0)}); w.Code != 400 {
			t.Errorf("%s: status %d, want 400", bad, w.Code)
		}
	}
	r.remove(b)
	if w := send(r, sending{body: body, sub: "sub_b", secret: b.key()}); w.Code != 401 {
		t.Errorf("a subscription that is gone: status %d, want 401", w.Code)
	}
}

func (b *inbox) key() Secret { return b.secret(0) }

func TestCE60AnswersOnlyOnceTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReceiver(t, ReceiverConfig{MaxWaiting: 3})
		b := r.open()
		event := func(i int) sending {
			return sending{body: oneEvent, id: fmt.Sprint("m", i), sub: "sub_1", secret: b.key()}
		}
		if w := send(r, event(0)); w.Code != 503 { // signed, but the subscribe is not answered yet
			t.Errorf("before the id is known: status %d, want 503", w.Code)
		}
		r.bind(b, "sub_1")
		began := time.Now()
		codes := make(chan int, 10)
		for i := range 5 {
			go func() { codes <- send(r, event(i)).Code }()
		}
		settle()
		if n := len(codes); n != 2 {
			t.Errorf("%d were answered at once, want the 2 that there is no room for", n)
		}
		if c := <-codes; c != 503 {
			t.Errorf("no room: status %d, want 503", c)
		}
		<-codes
		list := b.take(1)
		settleAll(list, true)
		if c := <-codes; c != 200 {
			t.Errorf("taken: status %d, want 200", c)
		}
		list = b.take(1)
		settleAll(list, false)
		if c := <-codes; c != 503 {
			t.Errorf("refused by the consumer: status %d, want 503", c)
		}
		if c, took := <-codes, time.Since(began); c != 503 || took != 4*time.Second {
			t.Errorf("not taken: status %d after %v, want 503 after 4s", c, took)
		}
		go func() { codes <- send(r, event(9)).Code }()
		settle()
		r.remove(b)
		if c := <-codes; c != 503 {
			t.Errorf("the follower left: status %d, want 503", c)
		}
	})
}

func TestInboxIsBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newReceiver(t, ReceiverConfig{MaxWaiting: 1000})
		b := r.open()
		r.bind(b, "sub_1")
		body := `{"x":"` + strings.Repeat("x", 1<<20-100) + `"}`
		codes := make(chan int, 100)
		for i := range 20 {
			go func() { codes <- send(r, sending{id: fmt.Sprint(i), body: body, secret: b.key()}).Code }()
		}
		settle()
		if n := len(codes); n != 12 {
			t.Errorf("%d of 20 MiB were refused at once, want 12", n)
		}
		after(5 * time.Second)
	})
}

func TestNewReceiverRefuses(t *testing.T) {
	for _, c := range []ReceiverConfig{
		{}, {URL: "http://client.example.net/"}, {URL: "/x"}, {URL: testURL, Take: -1}, {URL: testURL, MaxBody: -1},
		{URL: testURL, MaxWaiting: -1}, {URL: testURL, Rotate: -1},
	} {
		if _, err := NewReceiver(c); err == nil {
			t.Errorf("NewReceiver(%+v) = no error, want one", c)
		}
	}
}

func FuzzReceiver(f *testing.F) {
	f.Add(oneEvent, "e1", "sub_1")
	f.Add(`{"type":"verification","challenge":"x"}`, "m", "sub_2")
	f.Add(`{"type":"gap","cursor":5}`, "m", "sub_1")
	f.Add(`{"type":"terminated","error":{"code":"x"}}`, "m", "sub_1")
	f.Add(`{"type":7}`, "m", "sub_1")
	f.Fuzz(func(t *testing.T, body, id, sub string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReceiver(t, ReceiverConfig{})
		b := r.open()
		r.bind(b, "sub_1")
		got := taker(ctx, b)
		w := send(r, sending{body: body, id: id, sub: sub, secret: b.key()})
		switch w.Code {
		case 200, 400, 503:
		case 401: // a challenge for a subscription that is bound to another id
			if sub == "sub_1" {
				t.Errorf("a good signature got 401")
			}
		default:
			t.Errorf("status %d", w.Code)
		}
		if w := send(r, sending{body: body, id: id, sub: sub, secret: NewSecret()}); w.Code == 200 {
			t.Errorf("a foreign secret got 200")
		}
		if len(got) > 1 {
			t.Errorf("it was handed over %d times", len(got))
		}
	})
}

// deadlines is a writer that knows of the last deadline for reads.
type deadlines struct {
	*httptest.ResponseRecorder
	set  int
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.set, d.last = d.set+1, t; return nil }

// The deadline for the body is not one for the consumer.
func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	r := newReceiver(t, ReceiverConfig{})
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(oneEvent))
	req.Header = http.Header{"Content-Type": {"application/json"}}
	for _, name := range []string{headerID, headerSignature, headerSubscription} {
		req.Header.Set(name, "x")
	}
	req.Header.Set(headerTimestamp, strconv.FormatInt(time.Now().Unix(), 10))
	if _, status := r.read(d, req); status != 0 || d.set != 2 || !d.last.IsZero() {
		t.Errorf("status %d, the deadline was set %d times, to %v at last, want none in the end", status, d.set, d.last)
	}
}

func TestNewReceiverSaysThePrefixOnce(t *testing.T) {
	_, err := NewReceiver(ReceiverConfig{URL: "http://relay.example.net"})
	if err == nil || strings.Count(err.Error(), "mcpevents:") != 1 {
		t.Errorf("NewReceiver: %v, want an error with the prefix once", err)
	}
}
