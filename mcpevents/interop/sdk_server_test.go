package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/mcpevents"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An sdkServer is a way that our client reaches a server of the official
// TypeScript SDK.
type sdkServer struct {
	sdk, speaks string
	pipe        bool
}

func (c sdkServer) String() string {
	over := "http"
	if c.pipe {
		over = "stdio"
	}
	return fmt.Sprintf("sdk %s %s %s", c.sdk, c.speaks, over)
}

var sdkServers = []sdkServer{
	{"2", "2026-07-28", true},
	{"2", "2026-07-28", false},
	{"2", "2025-11-25", true},
	{"2", "2025-11-25", false},
	{"1", "2025-11-25", true},
	{"1", "2025-11-25", false},
}

// compat reports whether the server has the capability where older ones do.
func (c sdkServer) compat() bool { return c.sdk == "1" }

func (c sdkServer) streams() bool { return c.pipe || c.speaks >= "2026-07-28" }

// transport starts a server, which ends with the test.
func (c sdkServer) transport(t *testing.T) mcp.Transport {
	t.Helper()
	if c.pipe {
		cmd := command(context.Background(), packages(t), "sdk_server.mjs", c.sdk, "stdio")
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}
	}
	var up struct{ URL string }
	runScript(t, nil, "sdk_server.mjs", c.sdk, "http").ready(&up)
	return &mcp.StreamableClientTransport{Endpoint: up.URL, MaxRetries: -1}
}

func (c sdkServer) connect(t *testing.T) *mcpevents.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	s, err := mcpevents.Connect(ctx, client, c.transport(t), mcpevents.SessionConfig{ProtocolVersion: c.speaks, Compat: c.compat()})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if v := s.MCP().InitializeResult().ProtocolVersion; v != c.speaks {
		t.Errorf("revision = %q, want %q", v, c.speaks)
	}
	if !s.Offered() {
		t.Fatal("Offered = false, want true")
	}
	return s
}

// Our client lists, polls, streams and follows at servers whose request handlers
// and notifications are those of the official TypeScript SDK.
func TestTypeScriptServer(t *testing.T) {
	for _, c := range sdkServers {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			s := c.connect(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			c.lists(ctx, t, s)
			c.polls(ctx, t, s)
			c.drains(ctx, t, s)
			c.fallsBack(ctx, t, s)
			c.listens(ctx, t, s)
			if !c.streams() {
				for _, err := range s.Stream(ctx, mcpevents.Subscription{Name: "script"}, mcpevents.StreamQuery{}) {
					if !errors.Is(err, mcpevents.ErrNoMode) {
						t.Errorf("Stream = %v, want ErrNoMode", err)
					}
				}
				return
			}
			c.reads(ctx, t, s)
			c.readsInOrder(ctx, t, s)
			c.leaves(ctx, t, s)
			c.follows(ctx, t, s)
			c.isTerminated(ctx, t, s)
		})
	}
}

// Without the switch for older servers, theirs is no server of events.
func TestTypeScriptServerOfBefore(t *testing.T) {
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := mcpevents.Connect(ctx, client, sdkServer{"1", "", true}.transport(t), mcpevents.SessionConfig{})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer s.Close()
	if s.Offered() {
		t.Error("Offered = true, want false")
	}
	if _, err := s.Poll(ctx, mcpevents.Subscription{Name: "fixed"}, mcpevents.PollQuery{}); !errors.Is(err, mcpevents.ErrNotOffered) {
		t.Errorf("Poll = %v, want ErrNotOffered", err)
	}
}

func (c sdkServer) lists(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	var have []string
	for d, err := range s.List(ctx) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		have = append(have, fmt.Sprint(d.Name, d.Delivery))
	}
	if want := []string{"fixed[poll push]", "ended[poll]", "script[push poll]"}; !slices.Equal(have, want) {
		t.Errorf("List = %v, want %v", have, want)
	}
}

// ids are those of events, without the type's name.
func ids(events []mcpevents.Event) string {
	var out []string
	for _, v := range events {
		_, n, _ := strings.Cut(v.ID, "-")
		out = append(out, n)
	}
	return strings.Join(out, " ")
}

func (c sdkServer) polls(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	sub := mcpevents.Subscription{Name: "fixed"}
	for _, q := range []struct {
		cursor mcpevents.Cursor
		max    int
		want   string
	}{
		{"", 0, "[] at-10 false false"},
		{"at-0", 0, "[4 5 6] at-6 true true"},
		{"at-6", 2, "[7 8] at-8 false true"},
		{"at-8", 0, "[9 10] at-10 false false"},
		{"at-10", 0, "[] at-10 false false"},
	} {
		res, err := s.Poll(ctx, sub, mcpevents.PollQuery{Cursor: q.cursor, MaxEvents: q.max})
		if err != nil {
			t.Fatalf("Poll(%q): %v", q.cursor, err)
		}
		if have := fmt.Sprintf("[%s] %s %v %v", ids(res.Events), res.Cursor, res.Truncated, res.More); have != q.want {
			t.Errorf("Poll(%q, %d) = %s, want %s", q.cursor, q.max, have, q.want)
		}
		if res.NextPoll != 10*time.Millisecond || len(res.Dropped) != 0 {
			t.Errorf("Poll(%q): NextPoll = %v, Dropped = %v, want 10ms and none", q.cursor, res.NextPoll, res.Dropped)
		}
		for _, v := range res.Events {
			if v.At.IsZero() || v.Name != "fixed" || len(v.Data) == 0 {
				t.Errorf("Poll(%q): event %+v lacks something", q.cursor, v)
			}
		}
	}
	if _, err := s.Poll(ctx, mcpevents.Subscription{Name: "nobody.knows"}, mcpevents.PollQuery{}); !errors.Is(err, mcpevents.ErrNotFound) {
		t.Errorf("Poll of an unknown type = %v, want NotFound", err)
	}
	older := mcpevents.Subscription{Name: "script", Arguments: json.RawMessage(`{"poll":[-32013,"Resource exhausted",{"limit":"pollRate"}]}`)}
	if _, err := s.Poll(ctx, older, mcpevents.PollQuery{}); !errors.Is(err, mcpevents.ErrResourceExhausted) {
		t.Errorf("Poll with an older number = %v, want ResourceExhausted", err)
	}
}

// drains follows by polls, which come at once while there is more, whatever the
// pause between others.
func (c sdkServer) drains(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	var have []mcpevents.Event
	gaps := 0
	f := mcpevents.FollowConfig{Mode: mcpevents.Poll, Cursor: "at-0", PollFloor: time.Hour}
	for b, err := range s.Follow(ctx, mcpevents.Subscription{Name: "fixed"}, f) {
		if err != nil {
			t.Fatalf("Follow: %v", err)
		}
		if b.Truncated {
			gaps++
		}
		if have = append(have, b.Events...); b.Cursor == "at-10" {
			break
		}
	}
	if ids(have) != "4 5 6 7 8 9 10" || gaps != 1 {
		t.Errorf("Follow = %s with %d gaps, want 4 to 10 with 1", ids(have), gaps)
	}
}

// steps is a subscription whose stream does these steps.
func steps(note string, refuse string, list ...any) mcpevents.Subscription {
	args := map[string]any{"note": note}
	if refuse != "" {
		args["refuse"] = json.RawMessage(refuse)
	}
	if list != nil {
		args["steps"] = list
	}
	b, _ := json.Marshal(args) // cannot fail
	return mcpevents.Subscription{Name: "script", Arguments: b}
}

// fallsBack polls where the stream is refused, also with an older number.
func (c sdkServer) fallsBack(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	number := "-32026"
	if c.compat() {
		number = "-32014"
	}
	sub := steps("fallback", `[`+number+`,"Unsupported",{"feature":"deliveryMode","value":"push"}]`)
	var have []mcpevents.Event
	for b, err := range s.Follow(ctx, sub, mcpevents.FollowConfig{Cursor: "at-3"}) {
		if err != nil {
			t.Fatalf("Follow: %v", err)
		}
		if have = append(have, b.Events...); b.Cursor == "at-10" {
			break
		}
	}
	if ids(have) != "4 5 6 7 8 9 10" {
		t.Errorf("Follow = %s, want 4 to 10 by polls", ids(have))
	}
}

// listens takes an acknowledgement without what it asked for.
func (c sdkServer) listens(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	for _, err := range s.Listen(ctx) {
		t.Errorf("Listen = %v, want nothing of a server whose list does not change", err)
	}
}

// reads reads each kind of note, and past what it does not know.
func (c sdkServer) reads(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	sub := steps("all", "", "active", 11, "heartbeat", []any{-32603, "InternalError", map[string]any{"reason": "busy"}}, "stranger", 12, "gap", 91, "end")
	var have []string
	for n, err := range s.Stream(ctx, sub, mcpevents.StreamQuery{Cursor: "at-10"}) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		text := fmt.Sprint(n.Kind, " ", n.Cursor)
		switch n.Kind {
		case mcpevents.NoteActive:
			text += fmt.Sprint(" ", n.Truncated)
		case mcpevents.NoteEvent:
			text += " " + n.Event.ID
		case mcpevents.NoteError:
			if e, ok := errors.AsType[*mcpevents.Error](n.Err); !ok || e.Kind != mcpevents.Internal {
				t.Errorf("error note = %v, want an internal error", n.Err)
			}
		}
		have = append(have, text)
	}
	want := []string{
		"active at-10 false", "event at-11 script-11", "heartbeat at-11", "error ", "dropped ",
		"event at-12 script-12", "active at-90 true", "event at-91 script-91",
	}
	if !slices.Equal(have, want) {
		t.Errorf("Stream = %q, want %q", have, want)
	}
	for _, err := range s.Stream(ctx, steps("refused", `[-32024,"Forbidden",{"reason":"no"}]`), mcpevents.StreamQuery{}) {
		if !errors.Is(err, mcpevents.ErrForbidden) {
			t.Errorf("Stream = %v, want Forbidden", err)
		}
	}
}

// readsInOrder reads two streams at once, each its own events, all and in order.
func (c sdkServer) readsInOrder(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	const count = 300
	read := func(base int) error {
		list := []any{"active"}
		for n := base; n < base+count; n++ {
			list = append(list, n)
		}
		n := base
		for note, err := range s.Stream(ctx, steps("order", "", list...), mcpevents.StreamQuery{}) {
			if err != nil {
				return err
			}
			if note.Kind != mcpevents.NoteEvent {
				continue
			}
			if note.Event.ID != fmt.Sprint("script-", n) {
				return fmt.Errorf("event %s came, want script-%d", note.Event.ID, n)
			}
			n++
		}
		if n != base+count {
			return fmt.Errorf("%d events came, want %d", n-base, count)
		}
		return nil
	}
	other := make(chan error, 1)
	go func() { other <- read(1000) }()
	if err := errors.Join(read(5000), <-other); err != nil {
		t.Errorf("Stream: %v", err)
	}
}

// leaves sees that a stream that is left ends at the server.
func (c sdkServer) leaves(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	for n, err := range s.Stream(ctx, steps("left", "", "active", 11, "wait"), mcpevents.StreamQuery{}) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		if n.Kind == mcpevents.NoteEvent {
			break
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		res, err := s.Poll(ctx, mcpevents.Subscription{Name: "ended"}, mcpevents.PollQuery{})
		if err != nil {
			t.Fatalf("Poll: %v", err)
		}
		for _, v := range res.Events {
			if strings.Contains(string(v.Data), `"left"`) {
				if !strings.Contains(string(v.Data), `"cancelled"`) {
					t.Errorf("the stream ended with %s, want it cancelled", v.Data)
				}
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("the server did not hear of the end of a stream")
		}
	}
}

// follows gets each event once, the gap, and how the server closes.
func (c sdkServer) follows(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	sub := steps("follow", "", "active", 11, 12, 12, "heartbeat", "gap", 91, "end")
	var have []mcpevents.Event
	var cursor mcpevents.Cursor
	var last error
	gap := ""
	for b, err := range s.Follow(ctx, sub, mcpevents.FollowConfig{Mode: mcpevents.Push, Cursor: "at-10"}) {
		if last = err; err != nil {
			break
		}
		if b.Truncated {
			gap += "gap behind " + ids(have)
		}
		have = append(have, b.Events...)
		cursor = b.Cursor
	}
	if ids(have) != "11 12 91" || gap != "gap behind 11 12" || cursor != "at-91" || !errors.Is(last, mcpevents.ErrEnded) {
		t.Errorf("Follow = %s, %s, cursor %s, %v, want 11 12 91, a gap before 91, at-91, and ErrEnded", ids(have), gap, cursor, last)
	}
}

// isTerminated ends with the notification that says so, whether the server closes
// the stream or not.
func (c sdkServer) isTerminated(ctx context.Context, t *testing.T, s *mcpevents.Session) {
	t.Helper()
	var kinds []mcpevents.NoteKind
	for n, err := range s.Stream(ctx, steps("open", "", "active", "terminated", "wait"), mcpevents.StreamQuery{}) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		kinds = append(kinds, n.Kind)
	}
	if !slices.Equal(kinds, []mcpevents.NoteKind{mcpevents.NoteActive, mcpevents.NoteTerminated}) {
		t.Errorf("Stream = %v, want active and terminated", kinds)
	}
	var last error
	for _, err := range s.Follow(ctx, steps("over", "", "active", 11, "terminated", "end"), mcpevents.FollowConfig{Mode: mcpevents.Push}) {
		last = err
	}
	if _, ok := errors.AsType[*mcpevents.TerminatedError](last); !ok || !errors.Is(last, mcpevents.ErrForbidden) {
		t.Errorf("Follow ended with %v, want terminated, Forbidden", last)
	}
}
