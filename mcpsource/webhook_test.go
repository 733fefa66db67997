package mcpsource_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/mcpevents"
	"github.com/attend-go/attend/mcpsource"
)

// C8: a server that lists webhook only delivers to a receiver, over TLS; each
// event is in one decision, also over a restart of the client, with a new receiver
// and a new secret, that some deliveries meet.
func TestC8Webhook(t *testing.T) {
	var handler atomic.Pointer[mcpevents.Receiver]
	var posts atomic.Int64
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		if h := handler.Load(); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	hook.Config.ErrorLog = log.New(io.Discard, "", 0)
	hook.StartTLS()
	t.Cleanup(hook.Close)
	pool := x509.NewCertPool()
	pool.AddCert(hook.Certificate())

	events := mcpevents.NewLog(mcpevents.LogConfig{})
	w := newWorld(t, mcpevents.ServerConfig{
		Types:     []mcpevents.Type{{Name: "alert", Modes: []mcpevents.Mode{mcpevents.Webhook}, Backend: events}},
		Principal: func(context.Context) string { return "ann" },
		Webhooks: &mcpevents.WebhookConfig{
			Store: mcpevents.NewMemorySubscriptions(), AllowLoopback: true, TLS: &tls.Config{RootCAs: pool},
			Backoff: 20 * time.Millisecond, Scan: 20 * time.Millisecond, PerSubscription: 1, Attempts: 50, Challenges: 1000,
		},
	}, events)
	url := w.serve()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_ = w.ev.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ran })

	store := memory.New()
	// life is one life of the client.
	life := func(f func(r *rig, src *mcpsource.Source)) []string {
		receiver, err := mcpevents.NewReceiver(mcpevents.ReceiverConfig{URL: hook.URL + "/hook"})
		if err != nil {
			t.Fatalf("NewReceiver: %v", err)
		}
		handler.Store(receiver)
		session, err := over(t.Context(), url, nil)
		if err != nil {
			t.Fatalf("Connect: %v", err)
		}
		defer session.Close()
		r := newRig(t, store)
		src := source(t, session, mcpsource.Config{Receiver: receiver})
		detach := r.attach(t, src)
		until(t, "a cursor", func() bool { return r.cursor(t, src) != "" })
		f(r, src)
		_ = detach()
		handler.Store(nil)
		receiver.Close()
		r.stop()
		return r.heard()
	}
	var got []string
	got = append(got, life(func(r *rig, _ *mcpsource.Source) {
		w.append(0, 20)
		r.untilHeard(t, ids(0, 20))
	})...)
	before := posts.Load()
	w.append(20, 30)
	until(t, "deliveries that nobody takes", func() bool { return posts.Load() > before+2 })
	got = append(got, life(func(r *rig, _ *mcpsource.Source) {
		w.append(30, 40)
		r.untilHeard(t, ids(20, 40))
	})...)
	if !slices.Equal(got, ids(0, 40)) {
		t.Errorf("heard %v, want each once and in order", got)
	}
}
