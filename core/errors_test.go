package attend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
)

var errCause = errors.New("cause")

var sentinels = map[string]error{
	"ErrInvalid": attend.ErrInvalid, "ErrTooLarge": attend.ErrTooLarge, "ErrOutboxFull": attend.ErrOutboxFull,
	"ErrConflict": attend.ErrConflict, "ErrNotFound": attend.ErrNotFound, "ErrClosed": attend.ErrClosed,
	"ErrTruncated": attend.ErrTruncated, "ErrNewer": attend.ErrNewer, "ErrCorrupt": attend.ErrCorrupt,
	"ErrAttached": attend.ErrAttached, "ErrRemoved": attend.ErrRemoved, "errCause": errCause,
}

func TestErrorsIs(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		is   string // the one sentinel that it is
		text string
	}{
		{"invalid", &attend.InvalidError{Field: "id", Want: "1 to 256 bytes"}, "ErrInvalid", "attend: id: want 1 to 256 bytes"},
		{"too large", &attend.TooLargeError{Field: "event", Limit: 1 << 20}, "ErrTooLarge", "attend: event: too large, the limit is 1048576"},
		{"truncated", &attend.TruncatedError{Oldest: attend.LogCursor{Epoch: "e", Position: 7}}, "ErrTruncated", "attend: rows behind this cursor are gone"},
		{"event", &attend.EventError{Index: 3, Err: &attend.InvalidError{Field: "id", Want: "1 to 256 bytes"}}, "ErrInvalid", "attend: event 3: attend: id: want 1 to 256 bytes"},
		{"permanent", attend.Permanent(errCause), "errCause", "cause"},
		{"account", attend.PermanentAccount(errCause), "errCause", "cause"},
		{"retry after", &attend.RetryAfterError{After: time.Second, Err: errCause}, "errCause", "cause"},
		{"closed", attend.ErrClosed, "ErrClosed", "attend: closed"},
	} {
		for _, err := range []error{test.err, fmt.Errorf("store: commit: %w", test.err)} {
			for name, sentinel := range sentinels {
				if got, want := errors.Is(err, sentinel), name == test.is; got != want {
					t.Errorf("%s: errors.Is(%v, %s) = %v, want %v", test.name, err, name, got, want)
				}
			}
		}
		if got := test.err.Error(); got != test.text {
			t.Errorf("%s: Error() = %q, want %q", test.name, got, test.text)
		}
	}
}

func TestSentinelsDiffer(t *testing.T) {
	for name, a := range sentinels {
		for other, b := range sentinels {
			if got, want := errors.Is(a, b), name == other; got != want {
				t.Errorf("errors.Is(%s, %s) = %v, want %v", name, other, got, want)
			}
		}
	}
}

func TestErrorsAsType(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("judge: %w", err) }

	if got, ok := errors.AsType[*attend.InvalidError](wrap(&attend.InvalidError{Field: "id"})); !ok || got.Field != "id" {
		t.Errorf("AsType[InvalidError] = %v, %v, want its field", got, ok)
	}
	if got, ok := errors.AsType[*attend.TooLargeError](wrap(&attend.TooLargeError{Limit: 7})); !ok || got.Limit != 7 {
		t.Errorf("AsType[TooLargeError] = %v, %v, want its limit", got, ok)
	}
	if got, ok := errors.AsType[*attend.EventError](wrap(&attend.EventError{Index: 7, Err: errCause})); !ok || got.Index != 7 {
		t.Errorf("AsType[EventError] = %v, %v, want its index", got, ok)
	}
	if got, ok := errors.AsType[*attend.TruncatedError](wrap(&attend.TruncatedError{Oldest: attend.LogCursor{Position: 7}})); !ok || got.Oldest.Position != 7 {
		t.Errorf("AsType[TruncatedError] = %v, %v, want its oldest", got, ok)
	}
	if got, ok := errors.AsType[*attend.PermanentError](wrap(attend.Permanent(errCause))); !ok || got.Account {
		t.Errorf("AsType[PermanentError] of Permanent = %+v, %v, want one that is not the account's", got, ok)
	}
	if got, ok := errors.AsType[*attend.PermanentError](wrap(attend.PermanentAccount(errCause))); !ok || !got.Account {
		t.Errorf("AsType[PermanentError] of PermanentAccount = %+v, %v, want the account's", got, ok)
	}
	// A provider's answer can be both: which one is found must not depend on the order.
	for _, err := range []error{
		attend.Permanent(&attend.RetryAfterError{After: time.Second, Err: errCause}),
		&attend.RetryAfterError{After: time.Second, Err: attend.Permanent(errCause)},
	} {
		after, ok := errors.AsType[*attend.RetryAfterError](err)
		if !ok || after.After != time.Second {
			t.Errorf("AsType[RetryAfterError](%T) = %v, %v, want one second", err, after, ok)
		}
		if _, ok := errors.AsType[*attend.PermanentError](err); !ok {
			t.Errorf("AsType[PermanentError](%T) = false, want true", err)
		}
	}
	if _, ok := errors.AsType[*attend.PermanentError](context.Canceled); ok {
		t.Error("AsType[PermanentError] of a plain error = true, want false")
	}
}

func TestPermanentOfNil(t *testing.T) {
	if err := attend.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) = %v, want nil", err)
	}
	if err := attend.PermanentAccount(nil); err != nil {
		t.Errorf("PermanentAccount(nil) = %v, want nil", err)
	}
}
