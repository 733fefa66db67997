//go:build unix

package interop_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server"
)

const linesType = "Content-Type: application/x-ndjson"

// A reply is what curl got.
type reply struct {
	exit        int
	status      int
	media, body string
}

// curl runs curl to its end, with body as its standard input.
func curl(t testing.TB, body string, args ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args = append([]string{"-sS", "-w", "\n%{http_code} %{content_type}"}, args...)
	cmd := exec.CommandContext(ctx, tool(t, "curl", true), args...)
	cmd.Stdin = strings.NewReader(body)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	out := stdout.String()
	cut := strings.LastIndex(out, "\n")
	if cut < 0 {
		t.Fatalf("curl %q = %q, %s", args, out, stderr.String())
	}
	r := reply{exit: cmd.ProcessState.ExitCode(), body: out[:cut]}
	status, media, _ := strings.Cut(out[cut+1:], " ")
	r.media = media
	r.status, _ = strconv.Atoi(status)
	return r
}

// follow starts a curl whose output is read as it comes.
func follow(t testing.TB, args ...string) *program {
	t.Helper()
	return run(t, exec.Command(tool(t, "curl", true), append([]string{"-sS", "-N"}, args...)...))
}

// file writes a file for curl to send.
func file(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return "@" + path
}

// event is one event's line.
func event(scope string, n int) string {
	return fmt.Sprintf(`{"scope":%q,"id":"%d","name":"log","text":"number %d"}`, scope, n, n)
}

// Everything that ingest takes comes from curl's command line, and is there.
func TestCurlIngest(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	var zipped, packed bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprintln(z, event("in", 6))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(p, event("in", 7))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, body string
		args       []string
		accepted   int
	}{
		{"lines", event("in", 1) + "\n" + event("in", 2) + "\n", []string{"-H", linesType, "--data-binary", "@-"}, 2},
		{"one event", "", []string{"--json", event("in", 3)}, 1},
		{"a list", "", []string{"--json", "[" + event("in", 4) + "," + event("in", 5) + "]"}, 2},
		{"gzip", "", []string{"-H", linesType, "-H", "Content-Encoding: gzip", "--data-binary", file(t, "gz", zipped.Bytes())}, 1},
		{"zstd", "", []string{"-H", linesType, "-H", "Content-Encoding: zstd", "--data-binary", file(t, "zst", packed.Bytes())}, 1},
		{"chunks of unknown length", event("in", 8), []string{"-H", linesType, "-H", "Transfer-Encoding: chunked", "--data-binary", "@-"}, 1},
		{"HTTP/1.0", event("in", 9), []string{"-0", "-H", linesType, "--data-binary", "@-"}, 1},
		{"a binary CloudEvent", `{"a":1}`, []string{
			"-H", "Ce-Specversion: 1.0", "-H", "Ce-Source: in", "-H", "Ce-Id: 10", "-H", "Ce-Type: log",
			"-H", "Content-Type: application/json", "--data-binary", "@-",
		}, 1},
		{"Expect: 100-continue", event("in", 11), []string{"-H", linesType, "-H", "Expect: 100-continue", "--data-binary", "@-"}, 1},
	} {
		got := curl(t, c.body, append(c.args, w.url+"/v1/ingest")...)
		want := fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[]}`, c.accepted)
		if got.exit != 0 || got.status != 200 || strings.TrimSpace(got.body) != want || got.media != "application/json" {
			t.Errorf("%s: %+v, want %s", c.name, got, want)
		}
	}
	var state struct {
		Open struct{ Events []struct{ ID string } }
	}
	decode(t, curl(t, "", w.url+"/v1/scopes/in").body, &state)
	var ids []string
	for _, e := range state.Open.Events {
		ids = append(ids, e.ID)
	}
	if got, want := strings.Join(ids, ","), "1,2,3,4,5,6,7,8,9,in 10,11"; got != want {
		t.Errorf("the scope has the events %s, want %s", got, want)
	}
}

// A page, the pages behind it, a stream from a cursor, and what became of an event.
func TestCurlReads(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.decide("ops/db", 1, 5)
	w.decide("other", 1, 1)

	var page struct {
		Decisions       []decision
		Next            string
		Truncated, More bool
	}
	base := w.url + "/v1/decisions"
	decode(t, curl(t, "", "-G", base, "-d", "scope=ops", "-d", "limit=3").body, &page)
	counted(t, "the first page", page.Decisions, 1, 3)
	if !page.More || page.Truncated || page.Next != page.Decisions[2].Cursor {
		t.Errorf("the first page is %+v, want more, from its last decision's cursor on", page)
	}
	decode(t, curl(t, "", "-G", base, "-d", "scope=ops", "--data-urlencode", "after="+page.Next).body, &page)
	counted(t, "the second page", page.Decisions, 4, 5)
	if page.More || page.Truncated {
		t.Errorf("the second page is %+v, want the last one", page)
	}

	sse := []string{"-H", "Accept: text/event-stream"}
	first := curl(t, "", append(sse, base+"?scope=ops&limit=2&after="+url.QueryEscape(oldest(t, w, 0)))...)
	if first.exit != 0 || first.media != "text/event-stream" {
		t.Errorf("a stream with a limit: exit %d, %s", first.exit, first.media)
	}
	events := parse(first.body)
	counted(t, "a stream with a limit", events.decisions(t), 2, 3)
	if events.end() != `{"reason":"limit"}` {
		t.Errorf("a stream with a limit ends with %s", events.end())
	}
	// Last-Event-ID goes before after, which a client repeats.
	again := curl(t, "", append(sse, "-H", "Last-Event-ID: "+events.id(), base+"?scope=ops&limit=2&after="+url.QueryEscape(oldest(t, w, 0)))...)
	counted(t, "the stream again", parse(again.body).decisions(t), 4, 5)

	// Without a cursor it begins now; what comes then comes while curl waits.
	live := follow(t, append(sse, base+"?scope=ops&limit=1")...)
	w.metric(`attend_subscribers{transport="sse"}`, "", 1)
	w.decide("other", 2, 2)
	w.decide("ops/db", 6, 6)
	if code := live.code(); code != 0 {
		t.Errorf("curl's exit code is %d, want 0", code)
	}
	counted(t, "a live stream", parse(strings.Join(live.said(), "\n")).decisions(t), 6, 6)

	var told struct {
		Lives []struct{ Fate string }
	}
	decode(t, curl(t, "", w.url+"/v1/explain/ops%2Fdb/3").body, &told)
	if len(told.Lives) != 1 || told.Lives[0].Fate != "logged" {
		t.Errorf("explain = %+v, want one life that ends logged", told)
	}
	story := curl(t, "", "-H", "Accept: text/plain", "-G", w.url+"/v1/explain", "--data-urlencode", "scope=ops/db", "-d", "event=3")
	if !strings.HasPrefix(story.media, "text/plain") || !strings.HasPrefix(story.body, "Event 3 in ops/db: flush.now (flush)\n") {
		t.Errorf("explain as text = %+v", story)
	}
	if ready := curl(t, "", "-f", w.url+"/readyz"); ready.exit != 0 {
		t.Errorf("readyz = %+v, want curl -f content", ready)
	}
}

// oldest is the cursor of the n-th decision that is kept, from 0.
func oldest(t testing.TB, w *world, n int) string {
	t.Helper()
	var page struct{ Decisions []decision }
	decode(t, curl(t, "", w.url+"/v1/decisions").body, &page)
	return page.Decisions[n].Cursor
}

// What is wrong is a problem with its status, which curl --fail takes for a
// failure, and its detail can still be read.
func TestCurlProblems(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: server.Config{Tokens: tokens(t)}})
	bearer := func(token string, more ...string) []string {
		return append([]string{"-H", "Authorization: Bearer " + token}, more...)
	}
	ingest, decisions := w.url+"/v1/ingest", w.url+"/v1/decisions"
	line := event("ops", 1)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		detail string
	}{
		{"no token", []string{decisions}, 401, "a bearer token is wanted"},
		{"a wrong token", bearer("nobody-knows-this-token", decisions), 401, "the token is not known"},
		{"a token in the URL's place of users", []string{"-u", "user:" + allToken, decisions}, 401, "a bearer token is wanted"},
		{"reading without the right", bearer(sendToken, decisions), 403, "this needs the right to read"},
		{"ingest without the right", bearer(opsToken, "-H", linesType, "-d", line, ingest), 403, "this token may not bring events"},
		{"a foreign scope", bearer(sendToken, "-H", linesType, "-d", event("dev", 1), ingest), 403, "no line was taken; line 1: scope: want one that you may bring events into"},
		{"a foreign scope's life", bearer(opsToken, w.url+"/v1/explain/dev/1"), 404, ""},
		{"no such route", bearer(allToken, w.url+"/v2/ingest"), 404, "there is no such route"},
		{"another method", bearer(allToken, "-X", "DELETE", ingest), 405, "this is there, but not for this method"},
		{"curl's own content type", bearer(sendToken, "-d", line, ingest), 415, ""},
		{"broken JSON", bearer(sendToken, "-H", linesType, "-d", `{"scope":`, ingest), 400, "no line was taken; line 1: line: want one JSON object; it breaks at byte 10"},
		{"no gzip", bearer(sendToken, "-H", linesType, "-H", "Content-Encoding: gzip", "-d", line, ingest), 400, "the body is no gzip, or only the beginning of one"},
		{"a file over the limit", bearer(sendToken, "-H", linesType, "--data-binary", file(t, "big", make([]byte, 65<<20)), ingest), 413, "the request is too large, its limit is 67108864 bytes"},
		{"a cursor that is none", bearer(allToken, decisions+"?after=7"), 400, ""},
		{"a parameter that is none", bearer(allToken, decisions+"?form=1"), 400, ""},
		{"a host that is not the loopback's", bearer(allToken, "-H", "Host: example.com", decisions), 403, ""},
		{"a page of another origin", bearer(allToken, "-H", "Origin: https://example.com", "-H", "Sec-Fetch-Site: cross-site", decisions), 403, ""},
	} {
		got := curl(t, "", append([]string{"--fail-with-body"}, c.args...)...)
		var problem struct {
			Status        int
			Title, Detail string
		}
		decode(t, got.body, &problem)
		if got.exit != 22 || got.status != c.status || got.media != "application/problem+json" {
			t.Errorf("%s: %+v, want exit code 22, status %d and a problem", c.name, got, c.status)
		}
		if problem.Status != c.status || problem.Title == "" || problem.Detail == "" || c.detail != "" && problem.Detail != c.detail {
			t.Errorf("%s: problem %+v, want status %d, detail %q", c.name, problem, c.status, c.detail)
		}
	}
	// Nothing of all that was taken.
	for _, scope := range []string{"ops", "dev"} {
		if got := curl(t, "", bearer(allToken, w.url+"/v1/scopes/"+scope)...); got.status != 404 {
			t.Errorf("scope %s = %+v, want 404: nothing was taken", scope, got)
		}
	}
}

// A stream both ways: each line is answered before the next one is sent.
func TestCurlOpenStream(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	c := follow(t, "-X", "POST", "-H", linesType, "-T", ".", w.url+"/v1/ingest/stream")
	c.await("credit", func(l string) bool { return l == `{"credit":1000}` })
	for n := 1; n <= 20; n++ {
		c.write(event("s", n))
		c.await("answer", func(l string) bool { return l == fmt.Sprintf(`{"line":%d,"ok":true}`, n) })
	}
	c.write(`{"scope":"s","id":`)
	c.await("rejection", func(l string) bool { return strings.HasPrefix(l, `{"line":21,"error":`) })
	c.write(`{"scope":"s","flush":true}`)
	c.await("answer", func(l string) bool { return l == `{"line":22,"ok":true}` })
	if got := w.decided(); len(got) != 1 || len(got[0].Window.Events) != 20 {
		t.Errorf("decisions = %+v, want one of 20 events while the stream is open", got)
	}
	if err := c.in.Close(); err != nil {
		t.Fatal(err)
	}
	if code := c.code(); code != 0 {
		t.Errorf("curl's exit code is %d, want 0", code)
	}
	lines := c.said()
	if got, want := lines[len(lines)-1], `{"accepted":21,"duplicates":0,"rejected":1}`; got != want {
		t.Errorf("the last line is %s, want %s", got, want)
	}
}

// decided returns all decisions there are.
func (w *world) decided() []decision {
	w.t.Helper()
	var page struct{ Decisions []decision }
	decode(w.t, curl(w.t, "", w.url+"/v1/decisions?limit=1000").body, &page)
	return page.Decisions
}

// A curl that stands still is ended, others are not held up meanwhile, and it
// misses nothing that it asks for again by its last id.
func TestCurlStandsStill(t *testing.T) {
	t.Parallel()
	const many = 12
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, setup{config: server.Config{WriteTimeout: time.Second}, listen: server.Listen{Listener: narrow{ln}}})
	accept := "Accept: text/event-stream"
	still := follow(t, "-H", accept, w.url+"/v1/decisions")
	other := follow(t, "-H", accept, w.url+"/v1/decisions?limit="+strconv.Itoa(many))
	w.metric(`attend_subscribers{transport="sse"}`, "", 2)
	w.decide("ops", 1, 1)
	still.await("the first decision", func(l string) bool { return strings.HasPrefix(l, "data: ") })
	still.signal(syscall.SIGSTOP)
	for n := 2; n <= many; n++ {
		w.push("ops", attend.Event{ID: strconv.Itoa(n), Name: "flush.now", Text: strings.Repeat("x", 300_000)}) // the notice repeats it
	}
	if code := other.code(); code != 0 {
		t.Errorf("the exit code of the curl that reads is %d, want 0", code)
	}
	counted(t, "the curl that reads", parse(strings.Join(other.said(), "\n")).decisions(t), 1, many)
	w.metric(`attend_subscribers{transport="sse"}`, "", 0) // the one that stands still has lost its place
	still.signal(syscall.SIGCONT)
	if code := still.code(); code != 18 && code != 56 {
		t.Errorf("the exit code of the curl that stood still is %d, want 18 or 56: the answer was cut", code)
	}
	got := parse(strings.Join(still.said(), "\n"))
	had := got.decisions(t)
	if len(had) == 0 || len(had) >= many {
		t.Fatalf("the curl that stood still has %d decisions of %d, want some", len(had), many)
	}
	counted(t, "the curl that stood still", had, 1, len(had))
	rest := curl(t, "", "-H", accept, "-H", "Last-Event-ID: "+got.id(), w.url+"/v1/decisions?limit="+strconv.Itoa(many-len(had)))
	counted(t, "the curl that came again", parse(rest.body).decisions(t), len(had)+1, many)
}

// A narrow listener's connections take little that their reader does not: the
// kernel would else keep some megabytes.
type narrow struct{ net.Listener }

// Accept is of [net.Listener].
func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(64 << 10) // where it can't be set, the test fails
	}
	return c, err
}

// A unix socket is as good as an address.
func TestCurlSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "a") // a test's own folder may have too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	start(t, setup{listen: server.Listen{Socket: path}})
	got := curl(t, event("s", 1), "--unix-socket", path, "-H", linesType, "--data-binary", "@-", "http://attend/v1/ingest")
	if got.status != 200 || !strings.Contains(got.body, `"accepted":1,`) {
		t.Errorf("ingest over a socket = %+v", got)
	}
}
