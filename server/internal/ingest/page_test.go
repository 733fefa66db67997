package ingest_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
	"github.com/attend-go/attend/server/access"
)

const page = "../../../docs/http-errors.md"

// A pageRow is one row of a table of the page, by the heads of its columns.
type pageRow struct {
	line int
	sent []string // headers for all rows of the table
	cell map[string]string
}

var span = regexp.MustCompile("`([^`]*)`")

func spans(s string) (list []string) {
	for _, m := range span.FindAllStringSubmatch(s, -1) {
		list = append(list, m[1])
	}
	return list
}

func pageRows(t *testing.T) (rows []pageRow) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var sent, heads []string
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "Sent with"):
			sent = spans(line)
		case !strings.HasPrefix(line, "|"):
			heads = nil
		case strings.HasPrefix(line, "| ---"):
		default:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for j := range cells {
				cells[j] = strings.TrimSpace(cells[j])
			}
			if heads == nil {
				heads = cells
				continue
			}
			if heads[0] != "case" {
				continue
			}
			if len(cells) != len(heads) {
				t.Fatalf("%s:%d: %d cells, want %d", page, i+1, len(cells), len(heads))
			}
			row := pageRow{i + 1, sent, make(map[string]string)}
			for j, head := range heads {
				row.cell[head] = cells[j]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// repeat reads a text n times over.
func repeat(text string, n int) io.Reader {
	many := max(1, (64<<10)/len(text))
	return io.MultiReader(&repeated{strings.Repeat(text, many), n / many, 0}, strings.NewReader(strings.Repeat(text, n%many)))
}

type repeated struct {
	text string
	left int
	from int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.from:])
	if r.from += n; r.from == len(r.text) {
		r.from = 0
		r.left--
	}
	return n, nil
}

var (
	placeholder = regexp.MustCompile(`‹([0-9a-f]{2}|(\d+)(Ki|Mi)?×([^›]+))›|⏎`)
	factors     = map[string]int{"": 1, "Ki": 1 << 10, "Mi": 1 << 20}
)

// expand is what a body of the page stands for.
func expand(t *testing.T, s string) io.Reader {
	var parts []io.Reader
	last := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(s, -1) {
		parts = append(parts, strings.NewReader(s[last:m[0]]))
		last = m[1]
		switch {
		case m[2] < 0:
			parts = append(parts, strings.NewReader("\n"))
		case m[4] < 0:
			b, err := hex.DecodeString(s[m[2]:m[3]])
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, bytes.NewReader(b))
		default:
			n, err := strconv.Atoi(s[m[4]:m[5]])
			if err != nil {
				t.Fatal(err)
			}
			factor := ""
			if m[6] >= 0 {
				factor = s[m[6]:m[7]]
			}
			parts = append(parts, repeat(s[m[8]:m[9]], n*factors[factor]))
		}
	}
	return io.MultiReader(append(parts, strings.NewReader(s[last:]))...)
}

func deflated(t *testing.T, r io.Reader, how string) *bytes.Buffer {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if how == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&b, zstd.WithWindowSize(8<<20)); err != nil {
			t.Fatal(err)
		}
	} else if how == "wide zstd" {
		var err error
		if w, err = zstd.NewWriter(&b, zstd.WithWindowSize(16<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if how == "half gzip" {
		b.Truncate(b.Len() / 2)
	}
	return &b
}

var errDown = errors.New("a secret of the store")

// A downStore has no answer about some scopes.
type downStore struct {
	attend.ScopeStore
	down func(attend.Scope) bool
}

func (d downStore) Load(ctx context.Context, s attend.Scope) (attend.Record, error) {
	if d.down(s) {
		return attend.Record{}, errDown
	}
	return d.ScopeStore.Load(ctx, s)
}

var pageTokens = map[string]string{"": "a-token-that-brings-into-ops", "all": "a-token-that-brings-all", "reads": "a-token-that-reads", "wrong": "a-token-that-nobody-has"}

// pageServer is a server in a state of the page.
func pageServer(t *testing.T, state string) http.Handler {
	cfg := engineConfig()
	switch state {
	case "", "stopping":
	case "full":
		cfg.MaxOutbox = 1
		cfg.Sink = attend.SinkFunc(func(context.Context, attend.Decision) error { return nil }) // Run is not called: nothing is delivered
	case "down":
		cfg.Store = downStore{memory.New(), func(attend.Scope) bool { return true }}
	case "down for one":
		cfg.Store = downStore{memory.New(), func(s attend.Scope) bool { return s == "one" }}
	default:
		t.Fatalf("no such state: %q", state)
	}
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if state == "full" {
		if _, err := e.Push(t.Context(), "full", attend.Event{ID: "0", Name: "flush.x"}); err != nil {
			t.Fatal(err)
		}
	}
	ops := []attend.Prefix{"ops", "/", "full", "one"}
	tokens, err := access.NewTokens([]access.Token{
		{Secret: pageTokens[""], Principal: access.Principal{Name: "ops", Scopes: ops, Ingest: true}},
		{Secret: pageTokens["all"], Principal: access.Principal{Name: "all", Scopes: []attend.Prefix{""}, Ingest: true}},
		{Secret: pageTokens["reads"], Principal: access.Principal{Name: "reads", Scopes: ops, Read: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(e, cfg.Store, server.Config{Tokens: tokens, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if state == "stopping" {
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s.Handler()
}

// pageRequest is the request of a row.
func pageRequest(t *testing.T, row pageRow) *http.Request {
	method, target, text := http.MethodPost, "/v1/ingest", row.cell["body"]
	if s, ok := row.cell["stream"]; ok {
		target, text = "/v1/ingest/stream", s
	}
	var body io.Reader = strings.NewReader("")
	if list := spans(text); len(list) == 1 {
		body = expand(t, list[0])
	}
	header, token, length := make(http.Header), pageTokens[""], int64(-1)
	for _, h := range append(row.sent, spans(row.cell["sent with"])...) {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Authorization":
			token = pageTokens[value]
		case "Method":
			method = value
		case "Content-Length":
			length, _ = strconv.ParseInt(value, 10, 64)
		case "Content-Encoding":
			switch value {
			case "gzip", "half gzip", "zstd", "wide zstd":
				body = deflated(t, body, value)
			}
			words := strings.Fields(value)
			header.Set(name, words[len(words)-1])
		default:
			if header.Set(name, value); value == "" {
				header.Del(name)
			}
		}
	}
	r := httptest.NewRequest(method, target, io.NopCloser(body))
	r.Header, r.ContentLength = header, length
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// The page says what the server answers to bad input, and this is that it does.
func TestPage(t *testing.T) {
	rows := pageRows(t)
	if len(rows) < 90 {
		t.Fatalf("%s has %d rows, want all of them", page, len(rows))
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.cell["case"], "/", " "), func(t *testing.T) {
			list := spans(row.cell["answer"])
			if len(list) != 1 {
				t.Fatalf("%s:%d: want one answer", page, row.line)
			}
			state, _ := strings.CutPrefix(strings.TrimSuffix(row.cell["state"], "`"), "`")
			w := httptest.NewRecorder()
			pageServer(t, state).ServeHTTP(w, pageRequest(t, row))
			status := row.cell["status"]
			if row.cell["stream"] != "" {
				status = "200"
			}
			if got := strconv.Itoa(w.Code); got != status {
				t.Errorf("%s:%d: %s, want %s; %s", page, row.line, got, status, w.Body)
			}
			if strings.Contains(w.Body.String(), errDown.Error()) {
				t.Errorf("the answer quotes the store: %s", w.Body)
			}
			if again := w.Code == 429 || w.Code == 503; again != (w.Header().Get("Retry-After") != "") {
				t.Errorf("Retry-After of a %d: %q", w.Code, w.Header().Get("Retry-After"))
			}
			want := list[0]
			switch {
			case row.cell["stream"] != "":
				if got := strings.TrimSuffix(w.Body.String(), "\n"); got != strings.ReplaceAll(want, "⏎", "\n") {
					t.Errorf("%s:%d: answers\n%s\nwant\n%s", page, row.line, got, want)
				}
			default:
				comparePage(t, row, w, want)
			}
		})
	}
}

func comparePage(t *testing.T, row pageRow, w *httptest.ResponseRecorder, want string) {
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("the answer is no JSON: %v", err)
	}
	media := "application/json"
	if w.Code != 200 {
		media = "application/problem+json"
		if got["title"] != http.StatusText(w.Code) || got["status"] != float64(w.Code) {
			t.Errorf("title and status: %s", w.Body)
		}
		delete(got, "title")
		delete(got, "status")
	}
	if h := w.Header().Get("Content-Type"); h != media {
		t.Errorf("Content-Type = %q, want %q", h, media)
	}
	if !strings.HasPrefix(want, "{") {
		if got["detail"] != want {
			t.Errorf("%s:%d: detail\n%v\nwant\n%v", page, row.line, got["detail"], want)
		}
		return
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(want), &answer); err != nil {
		t.Fatalf("%s:%d: %v", page, row.line, err)
	}
	if !reflect.DeepEqual(got, answer) {
		t.Errorf("%s:%d: answer\n%s\nwant\n%s", page, row.line, w.Body, want)
	}
}
