package mcpevents

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The categories of what goes wrong at an endpoint: the closed list that clients
// are told, never the endpoint's own text.
const (
	failRefused   = "connection_refused" // also no name, no public address, a broken connection
	failTimeout   = "timeout"
	failTLS       = "tls_error"
	failClient    = "http_4xx" // also what is no final answer: 1xx and 3xx
	failServer    = "http_5xx"
	failChallenge = "challenge_failed"
)

// maxAnswer is how much of an endpoint's answer is read.
const maxAnswer = 4 << 10

// A letter is one POST to a callback.
type letter struct {
	callback     string
	subscription string
	id           string
	body         []byte
	write        func() []byte // makes body; nil: it is there
	secrets      []Secret
}

// An outcome is what became of one.
type outcome struct {
	status int    // 0: there was no answer
	fault  string // a category; empty: it was accepted
	after  time.Duration
	body   []byte
}

// refused reports whether the endpoint does not want this message, for good.
func (o outcome) refused() bool {
	return o.status == http.StatusGone || o.status == http.StatusRequestEntityTooLarge
}

// waits reports whether the endpoint says when it wants the message again.
func (o outcome) waits() bool { return o.busy() && o.after > 0 }

// busy reports whether the endpoint asks for more time rather than failing.
func (o outcome) busy() bool {
	return o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable && o.after > 0
}

// post makes one attempt: signed anew, no redirect followed, all of it within
// the timeout.
func (h *webhooks) post(ctx context.Context, m letter) outcome {
	if m.write != nil {
		m.body = m.write()
	}
	ctx, cancel := context.WithTimeout(ctx, h.c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.callback, bytes.NewReader(m.body))
	if err != nil {
		return outcome{fault: failRefused}
	}
	now := time.Now()
	req.Header = http.Header{
		"Content-Type":                              {"application/json"},
		"User-Agent":                                {"mcpevents"},
		"Webhook-Id":                                {m.id},
		http.CanonicalHeaderKey(headerTimestamp):    {strconv.FormatInt(now.Unix(), 10)},
		http.CanonicalHeaderKey(headerSignature):    {Sign(m.id, now, m.body, m.secrets...)},
		http.CanonicalHeaderKey(headerSubscription): {m.subscription},
	}
	return h.send(req)
}

// send makes a request that is built, and reads a little of the answer.
func (h *webhooks) send(req *http.Request) outcome {
	res, err := h.tripper.RoundTrip(req)
	if err != nil {
		return outcome{fault: faultOf(req.Context(), err)}
	}
	defer res.Body.Close()
	o := outcome{status: res.StatusCode}
	switch {
	case o.status/100 == 5:
		o.fault = failServer
	case o.status/100 != 2:
		o.fault = failClient
	}
	if o.status == http.StatusSwitchingProtocols {
		return o // its body is the connection
	}
	if o.fault != "" {
		o.after = retryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	if o.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		// The status is the answer; the body matters to challenges alone.
		o.body = nil
	}
	return o
}

// faultOf puts an error of a request into a category.
func faultOf(ctx context.Context, err error) string {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return failTimeout
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return failTimeout
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return failTLS
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return failTLS
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return failTLS
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return failTLS
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" { // an alert of the peer
		return failTLS
	}
	return failRefused
}

// retryAfter reads the header in both of its forms; 0 for neither.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// backoffFactor makes five attempts take about nine minutes.
const backoffFactor = 6

// retry counts a failed attempt and says when the next is; false: there is none.
// One that the endpoint put off takes none of the attempts, but of the window.
func (c *WebhookConfig) retry(t *tries, began time.Time, o outcome, now time.Time) bool {
	if t.First == 0 {
		t.First = began.UnixMilli()
	}
	if !o.waits() {
		t.N++
	}
	end := moment(t.First).Add(c.RetryWindow)
	if t.N >= c.Attempts || !now.Before(end) {
		return false
	}
	wait := c.Backoff
	for range t.N - 1 {
		wait = min(wait*backoffFactor, c.RetryWindow)
	}
	wait = wait*3/4 + rand.N(wait/2+1) // jitter
	next := now.Add(max(wait, o.after))
	if next.After(end) {
		next = end // a last one, however long the endpoint asks to wait
	}
	t.Next = next.UnixMilli()
	return true
}

// eventMessageID is the webhook-id of an event: the event's own, or one that is
// the same for each attempt, also of another process.
func (h *webhooks) eventMessageID(subscription string, f *formed) string {
	if h.c.ID == WebhookIDMessage {
		return "msg_event_" + callbackDigest(subscription+"\n"+f.id)
	}
	return f.id
}

// body is the body of an event's delivery: the event as in every mode.
func (f *formed) body(cursor Cursor) []byte {
	b := make([]byte, 0, len(f.head)+len(f.meta)+len(cursor)+32)
	b = append(append(b, f.head...), `,"cursor":`...)
	if cursor == "" {
		b = append(b, "null"...)
	} else {
		b = append(b, quote(string(cursor))...)
	}
	if len(f.meta) > 0 {
		b = append(append(append(b, `,"_meta":{`...), f.meta[1:]...), '}')
	}
	return append(b, '}')
}

// gapEnvelope and the others are the bodies that are no events.
type gapEnvelope struct {
	Type   string `json:"type"` // gap
	Cursor Cursor `json:"cursor"`
}

type terminatedEnvelope struct {
	Type  string    `json:"type"` // terminated
	Error wireError `json:"error"`
}

type verificationEnvelope struct {
	Type      string `json:"type"` // verification
	Challenge string `json:"challenge"`
}
