package mcpevents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// ReceiverConfig configures a [Receiver]. URL is required.
type ReceiverConfig struct {
	// URL is where servers reach the handler: absolute, https, part of the
	// identity of each subscription, so the same after a restart.
	URL string
	// TTL is the life that is asked for each subscription: the server's default
	// for zero, without end for a negative one.
	TTL time.Duration
	// Rotate is how long a secret is used before a refresh brings a new one;
	// zero is as long as the subscription is followed.
	Rotate time.Duration
	// MaxBody is the most bytes a delivery may have: 1 MiB for zero.
	MaxBody int64
	// Take is how long a delivery waits for its consumer before it is answered
	// with 503: 4 s for zero. Servers give up after about 5 s and try again.
	Take time.Duration
	// MaxWaiting is how many deliveries of a subscription wait at a time: 64 for
	// zero. Further ones are answered with 503 at once.
	MaxWaiting int
}

// A Receiver is the client's end of webhooks: an http.Handler that takes the
// deliveries of any number of subscriptions, of any servers, each of which is
// followed with [FollowConfig].Receiver set. It verifies every signature, answers
// challenges of the subscriptions that it knows, and answers a delivery with 200
// once the consumer has taken its batch, so that the server tries again whatever
// was not. Its answers are 200, 400 malformed or stale, 401 bad signature, 405,
// 413 too large, and 503 not now.
//
// Each subscription is followed once at a time: a second one over the same session
// ends with [ErrNoMode]. A consumer that leaves does not unsubscribe, so that it
// can come back: until the grant ends, the server goes on trying and is answered
// with 503. [Session.Unsubscribe] ends it at once.
//
// Serve it with TLS, or behind a proxy that passes headers and bodies on
// unchanged. Its methods may be called from many goroutines.
type Receiver struct {
	c ReceiverConfig

	mu     sync.Mutex
	boxes  map[*inbox]bool
	byID   map[string]map[*inbox]bool
	of     map[*follower]*inbox
	taken  map[followed]bool
	closed bool
}

// A followed is a subscription that is followed now, over a session.
type followed struct {
	s               *Session
	name, arguments string
}

// maxSkew is how far a delivery's time may be from ours.
const maxSkew = 5 * time.Minute

// readTimeout is for the body of a delivery.
const readTimeout = 10 * time.Second

// maxReceived bounds the headers that are looked at.
const maxReceived = 4 << 10

// NewReceiver returns a receiver without subscriptions. Its error tells which
// field is wrong.
func NewReceiver(c ReceiverConfig) (*Receiver, error) {
	if _, err := parseCallback(c.URL); err != nil {
		return nil, fmt.Errorf("mcpevents: ReceiverConfig.URL %w", err)
	}
	if c.Rotate < 0 || c.MaxBody < 0 || c.Take < 0 || c.MaxWaiting < 0 {
		return nil, errors.New("mcpevents: ReceiverConfig: Rotate, MaxBody, Take or MaxWaiting is negative")
	}
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	c.Take = cmp.Or(c.Take, 4*time.Second)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 64)
	return &Receiver{c: c, boxes: make(map[*inbox]bool), byID: make(map[string]map[*inbox]bool), of: make(map[*follower]*inbox), taken: make(map[followed]bool)}, nil
}

// Close answers everything with 503 from now on. What follows with the receiver
// is not ended by it.
func (r *Receiver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// A received is a delivery with the headers that matter.
type received struct {
	id           string
	timestamp    string
	at           int64 // timestamp, Unix seconds
	signature    string
	subscription string
	body         []byte
}

// ServeHTTP takes one delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, status := r.read(w, req)
	if status != 0 {
		answer(w, status)
		return
	}
	box, status := r.route(m)
	if status != 0 {
		answer(w, status)
		return
	}
	var kind struct {
		Type      json.RawMessage `json:"type"`
		Challenge json.RawMessage `json:"challenge"`
	}
	if !isObject(m.body) || tooDeep(m.body) || json.Unmarshal(m.body, &kind) != nil {
		answer(w, http.StatusBadRequest)
		return
	}
	if text, _ := stringOf(kind.Type); text == "verification" {
		r.echo(w, box, m, kind.Challenge)
		return
	}
	if !box.knows(m.subscription) { // the answer to the subscribe is still on its way
		answer(w, http.StatusServiceUnavailable)
		return
	}
	answer(w, box.hand(req.Context(), m, r.c.Take))
}

func answer(w http.ResponseWriter, status int) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
}

// echo proves that the endpoint wants the deliveries of a subscription, whose id
// it learns by that.
func (r *Receiver) echo(w http.ResponseWriter, box *inbox, m *received, challenge json.RawMessage) {
	nonce, ok := stringOf(challenge)
	if !ok {
		answer(w, http.StatusBadRequest)
		return
	}
	r.bind(box, m.subscription)
	w.Header().Set("Content-Type", "application/json")
	b, _ := json.Marshal(map[string]string{"challenge": nonce}) // a string
	_, _ = w.Write(b)
}

// read reads a delivery and checks what needs no secret. The status is 0 when it
// is good.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) (*received, int) {
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, http.StatusBadRequest
	}
	m := &received{}
	for _, h := range []struct {
		name string
		into *string
	}{{headerID, &m.id}, {headerTimestamp, &m.timestamp}, {headerSignature, &m.signature}, {headerSubscription, &m.subscription}} {
		values := req.Header.Values(h.name)
		if len(values) != 1 || values[0] == "" || len(values[0]) > maxReceived {
			return nil, http.StatusBadRequest
		}
		*h.into = values[0]
	}
	if m.at, err = strconv.ParseInt(m.timestamp, 10, 64); err != nil {
		return nil, http.StatusBadRequest
	}
	if off := time.Since(time.Unix(m.at, 0)); off > maxSkew || off < -maxSkew {
		return nil, http.StatusBadRequest
	}
	if req.ContentLength > r.c.MaxBody {
		return nil, http.StatusRequestEntityTooLarge
	}
	deadline := http.NewResponseController(w).SetReadDeadline // where the server can
	_ = deadline(time.Now().Add(readTimeout))
	m.body, err = io.ReadAll(http.MaxBytesReader(w, req.Body, r.c.MaxBody))
	_ = deadline(time.Time{}) // or the wait for the consumer ends with it
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return m, 0
}

// route finds the subscription whose secret signed a delivery: among those of
// its id, and, since a challenge comes before the id is known, among those that
// have none.
func (r *Receiver) route(m *received) (*inbox, int) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, http.StatusServiceUnavailable
	}
	var known, fresh []*inbox
	for b := range r.byID[m.subscription] {
		known = append(known, b)
	}
	for b := range r.boxes {
		if !b.bound() {
			fresh = append(fresh, b)
		}
	}
	r.mu.Unlock()
	for _, b := range append(known, fresh...) {
		if Verify(m.id, m.timestamp, m.signature, m.body, b.secrets()...) {
			return b, 0
		}
	}
	var kind struct {
		Type json.RawMessage `json:"type"`
	}
	if len(known) == 0 && (json.Unmarshal(m.body, &kind) != nil || string(kind.Type) != `"verification"`) {
		return nil, http.StatusServiceUnavailable // perhaps one that is yet to be known
	}
	return nil, http.StatusUnauthorized
}

// claim notes that a subscription is followed; false: it is already. Two would
// each take some of its deliveries.
func (r *Receiver) claim(k followed) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken[k] {
		return false
	}
	r.taken[k] = true
	return true
}

func (r *Receiver) unclaim(k followed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, k)
}

// open adds a subscription.
func (r *Receiver) open() *inbox {
	b := newInbox(r.c.MaxWaiting)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boxes[b] = true
	return b
}

// bind lets a subscription be found by its id.
func (r *Receiver) bind(b *inbox, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.boxes[b] {
		return
	}
	if old := b.bind(id); old != "" && old != id {
		r.unbind(b, old)
	}
	if r.byID[id] == nil {
		r.byID[id] = make(map[*inbox]bool)
	}
	r.byID[id][b] = true
}

// loosen takes a subscription's id away, as if it were a new one, and returns it.
func (r *Receiver) loosen(b *inbox) (id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id = b.bind("")
	r.unbind(b, id)
	return id
}

func (r *Receiver) unbind(b *inbox, id string) {
	if delete(r.byID[id], b); len(r.byID[id]) == 0 {
		delete(r.byID, id)
	}
}

// boxOf returns a follower's box, the same until it leaves: deliveries are taken
// in while it waits for another session, too.
func (r *Receiver) boxOf(f *follower) *inbox {
	r.mu.Lock()
	b := r.of[f]
	r.mu.Unlock()
	if b == nil {
		b = r.open()
		r.mu.Lock()
		r.of[f] = b
		r.mu.Unlock()
	}
	return b
}

// leave forgets a follower's subscription, if it has one here. A nil receiver
// has none.
func (r *Receiver) leave(f *follower) {
	if r == nil {
		return
	}
	r.mu.Lock()
	b := r.of[f]
	delete(r.of, f)
	r.mu.Unlock()
	if b != nil {
		r.remove(b)
	}
}

// remove forgets a subscription. What waits for it is answered with 503.
func (r *Receiver) remove(b *inbox) {
	r.mu.Lock()
	delete(r.boxes, b)
	r.unbind(b, b.bind(""))
	r.mu.Unlock()
	b.close()
}
