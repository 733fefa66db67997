package mcpevents

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestCE1NothingIsSentToAServerWithoutTheExtension(t *testing.T) {
	for _, capabilities := range []string{
		`{}`, `{"tools":{}}`, `{"extensions":{"io.modelcontextprotocol/events":true}}`, `{"events":{"listChanged":true}}`,
	} {
		bubble(t, func(t *testing.T) {
			p, s := (&fakeServer{capabilities: capabilities}).connect(t, SessionConfig{})
			if s.Offered() {
				t.Errorf("%s: Offered() = true", capabilities)
			}
			var found []error
			for _, err := range s.List(t.Context()) {
				found = append(found, err)
			}
			_, err := s.Poll(t.Context(), tick, PollQuery{})
			found = append(found, err)
			for _, err := range s.Stream(t.Context(), tick, StreamQuery{}) {
				found = append(found, err)
			}
			for _, err := range s.Listen(t.Context()) {
				found = append(found, err)
			}
			_, err = s.Subscribe(t.Context(), tick, WebhookTarget{URL: "https://h.test/", Secret: NewSecret()})
			found = append(found, err, s.Unsubscribe(t.Context(), tick, "https://h.test/"))
			_, err = collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			found = append(found, err)
			if len(found) != 7 {
				t.Errorf("%s: %d errors, want 7: %v", capabilities, len(found), found)
			}
			for _, err := range found {
				if !errors.Is(err, ErrNotOffered) {
					t.Errorf("%s: error %v, want ErrNotOffered", capabilities, err)
				}
			}
			for _, m := range p.all() {
				if m.Method != "server/discover" {
					t.Errorf("%s: the client sent %s", capabilities, m.Method)
				}
			}
		})
	}
}

func TestCapabilityOfOlderServersIsTakenWithCompat(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f := &fakeServer{legacy: legacy, capabilities: `{"events":{"listChanged":true}}`, list: listOf(pollType), serve: pollOf(`{"events":[` + polled("e1") + `],"cursor":"c1"}`)}
			p, s := f.connect(t, SessionConfig{Compat: true})
			if !s.Offered() || !s.announces {
				t.Fatalf("legacy %v: Offered() = %v, announces %v, want true", legacy, s.Offered(), s.announces)
			}
			got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1)
			if idsOf(got) != "e1" || err != nil {
				t.Errorf("legacy %v: %v, %v", legacy, got, err)
			}
			if meta := p.messages("events/poll")[0].Params["_meta"]; (meta == nil) != legacy {
				t.Errorf("legacy %v: _meta = %s", legacy, meta)
			}
		})
	}
}

func TestCE3EveryRequestDeclaresTheExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{list: listOf(bothType), serve: func(p *fakePipe, m message) {
			switch m.Method {
			case "tools/list":
				p.result(m, `{"resultType":"complete","tools":[]}`)
			case "events/poll":
				p.result(m, `{"events":[]}`)
			}
		}}
		p, transport := f.pipe(t)
		c := mcp.NewClient(&mcp.Implementation{Name: "mine", Version: "7"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{
			Extensions: map[string]any{"other": map[string]any{"x": 1}},
		}})
		s, err := Connect(t.Context(), c, transport, SessionConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.MCP().ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Poll(t.Context(), tick, PollQuery{}); err != nil {
			t.Fatal(err)
		}
		if n := len(p.all()); n != 3 {
			t.Fatalf("%d requests, want 3", n)
		}
		for _, m := range p.all() {
			meta, _ := m.param("_meta").(map[string]any)
			caps, _ := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
			ext, _ := caps["extensions"].(map[string]any)
			if settings, ok := ext[Extension].(map[string]any); !ok || len(settings) != 0 || ext["other"] == nil {
				t.Errorf("%s: extensions = %v, want ours as {} beside the other", m.Method, ext)
			}
			info, _ := meta[mcp.MetaKeyClientInfo].(map[string]any)
			if info["name"] != "mine" || meta[mcp.MetaKeyProtocolVersion] != "2026-07-28" {
				t.Errorf("%s: _meta = %v", m.Method, meta)
			}
		}
	})
}

func TestCE3AnOlderHandshakeDeclaresTheExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, _ := (&fakeServer{legacy: true}).connect(t, SessionConfig{})
		caps, _ := p.messages("initialize")[0].param("capabilities").(map[string]any)
		ext, _ := caps["extensions"].(map[string]any)
		if _, ok := ext[Extension].(map[string]any); !ok {
			t.Errorf("capabilities = %v, want the extension", caps)
		}
	})
}

func TestManySessionsOfOneClientAtOnce(t *testing.T) {
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	var wg sync.WaitGroup
	for range 16 {
		f := &fakeServer{list: listOf(pollType), serve: pollOf(`{"events":[` + polled("e1") + `],"cursor":"c1"}`)}
		_, transport := f.pipe(t)
		wg.Go(func() {
			s, err := Connect(t.Context(), c, transport, SessionConfig{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 1); idsOf(got) != "e1" {
				t.Errorf("batches %v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func TestABrokenPipeEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
			time.Sleep(time.Second)
			_ = p.conn.Close()
		})}
		_, s := f.connect(t, SessionConfig{})
		got, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 9)
		if !errors.Is(err, ErrClosed) || len(got) != 1 {
			t.Errorf("%d batches, %v, want 1 and ErrClosed", len(got), err)
		}
		<-s.Done()
		if !errors.Is(s.Err(), ErrClosed) {
			t.Errorf("Err() = %v, want ErrClosed", s.Err())
		}
		if _, err := s.Poll(t.Context(), tick, PollQuery{}); !errors.Is(err, ErrClosed) {
			t.Errorf("Poll: %v, want ErrClosed", err)
		}
	})
}

func TestCloseEndsStreamsAndLeavesNoGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) { // the bubble fails on a goroutine that is left
		f := &fakeServer{capabilities: announces, list: listOf(pushType), serve: streamOf(func(p *fakePipe, m message) {
			p.note(m, "events/active", `"cursor":"c0"`)
		})}
		_, s := f.connect(t, SessionConfig{})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := collect(s.Follow(t.Context(), tick, FollowConfig{}), 9); !errors.Is(err, ErrClosed) {
					t.Errorf("Follow ended with %v, want ErrClosed", err)
				}
			})
		}
		time.Sleep(time.Second)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestAServerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stuck := make(chan struct{})
		f := &fakeServer{list: listOf(pushType), serve: func(*fakePipe, message) { <-stuck }}
		_, s := f.connect(t, SessionConfig{})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		for range 3 { // the first is read, and nothing after it
			if _, err := s.Poll(ctx, tick, PollQuery{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Poll: %v, want DeadlineExceeded", err)
			}
		}
		time.Sleep(2 * maxWrite)
		select {
		case <-s.Done():
		default:
			t.Error("the session goes on")
		}
		close(stuck)
	})
}

func TestConnectSaysWhyItFails(t *testing.T) {
	if _, err := Connect(t.Context(), nil, nil, SessionConfig{}); err == nil {
		t.Error("Connect without a client: no error")
	}
	bubble(t, func(t *testing.T) {
		f := &fakeServer{}
		p, transport := f.pipe(t)
		_ = p.conn.Close()
		_, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c"}, nil), transport, SessionConfig{})
		if err == nil || !strings.HasPrefix(err.Error(), "mcpevents: connect: ") {
			t.Errorf("Connect: %v", err)
		}
	})
}

func TestCE48AnUnknownResultTypeIsAnError(t *testing.T) {
	for _, one := range []struct {
		result string
		want   error
	}{
		{`{"events":[]}`, nil},
		{`{"resultType":"complete","events":[]}`, nil},
		{`{"resultType":"input_required","events":[]}`, ErrProtocol},
		{`{"resultType":7,"events":[]}`, ErrProtocol},
		{`[]`, ErrProtocol},
		{`null`, ErrProtocol},
		{`{"events":{}}`, ErrProtocol},
		{`{"events":[],"cursor":7}`, ErrProtocol},
	} {
		bubble(t, func(t *testing.T) {
			_, s := (&fakeServer{serve: pollOf(one.result)}).connect(t, SessionConfig{})
			if _, err := s.Poll(t.Context(), tick, PollQuery{}); !errors.Is(err, one.want) {
				t.Errorf("Poll answered %s: %v, want %v", one.result, err, one.want)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: streamOf(func(p *fakePipe, m message) { p.result(m, `{"resultType":"input_required"}`) })}
		_, s := f.connect(t, SessionConfig{})
		for _, err := range s.Stream(t.Context(), tick, StreamQuery{}) {
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("Stream: %v, want ErrProtocol", err)
			}
		}
	})
}

func TestCE24APollMayTakeLongAndHasALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fakeServer{serve: func(p *fakePipe, m message) {
			go func() {
				time.Sleep(45 * time.Second)
				p.result(m, `{"events":[],"cursor":"c1"}`)
			}()
		}}
		_, s := f.connect(t, SessionConfig{})
		if res, err := s.Poll(t.Context(), tick, PollQuery{}); err != nil || res.Cursor != "c1" {
			t.Errorf("Poll: %v, %v", res, err)
		}
		_, s = f.connect(t, SessionConfig{RequestTimeout: 30 * time.Second})
		start := time.Now()
		if _, err := s.Poll(t.Context(), tick, PollQuery{}); !errors.Is(err, ErrTimeout) || time.Since(start) != 30*time.Second {
			t.Errorf("Poll: %v after %v, want ErrTimeout after 30s", err, time.Since(start))
		}
		time.Sleep(time.Minute) // the late answer is swallowed
		if s.Err() != nil {
			t.Errorf("Err() = %v", s.Err())
		}
	})
}
