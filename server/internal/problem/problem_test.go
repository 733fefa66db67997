package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// V2: every error has its status, and none shows what came in.
func TestV2Errors(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		err    error
		status int
		retry  string
	}{
		{&attend.EventError{Index: 3, Err: &attend.InvalidError{Field: "id", Want: "1 to 256 bytes"}}, 400, ""},
		{&attend.TooLargeError{Field: "event", Limit: 1 << 20}, 413, ""},
		{fmt.Errorf("engine: push to %q: %w", secret, attend.ErrOutboxFull), 429, "1"},
		{fmt.Errorf("%s: %w", secret, attend.ErrConflict), 429, "1"},
		{fmt.Errorf("%s: %w", secret, attend.ErrNotFound), 404, ""},
		{fmt.Errorf("%s: %w", secret, attend.ErrNewer), 503, ""},
		{fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), 503, "1"},
		{errors.New(secret), 503, "1"},
		{&http.MaxBytesError{Limit: 5}, 413, ""},
		{&problem.Problem{Status: 429, Detail: "slow down", Retry: 1500 * time.Millisecond}, 429, "2"},
		{problem.With(http.StatusUnauthorized, "a token is needed"), 401, ""},
	} {
		w := httptest.NewRecorder()
		problem.Write(w, c.err)
		var body struct {
			Status int
			Title  string
			Detail string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || body.Status != c.status || body.Title == "" || body.Detail == "" ||
			w.Header().Get("Retry-After") != c.retry || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %v %s", c.err, w.Code, w.Header(), w.Body)
		}
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%v: the answer quotes it: %s", c.err, w.Body)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%v: %v", c.err, w.Header())
		}
	}
}
