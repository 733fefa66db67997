package ingest

import (
	"errors"
	"net/http"
	"strconv"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/internal/problem"
)

// A reason is why a line was not taken. It quotes nothing of the line.
type reason struct {
	text   string
	status int  // what the answer has, if no line was taken and all for reasons like this
	retry  bool // the same line may be taken another time
}

// wants is the reason of a line with a field that breaks a rule.
func wants(field, want string) *reason {
	return &reason{text: field + ": want " + want, status: http.StatusBadRequest}
}

func tooLong(field string, limit int) *reason {
	return &reason{text: field + ": too large, the limit is " + strconv.Itoa(limit), status: http.StatusRequestEntityTooLarge}
}

var foreign = &reason{text: "scope: want one that you may bring events into", status: http.StatusForbidden}

// because is the reason that an error of the engine is. fields are the names
// that the line has for those of an event.
func because(err error, fields map[string]string) *reason {
	if invalid, ok := errors.AsType[*attend.InvalidError](err); ok {
		return wants(called(invalid.Field, fields), invalid.Want)
	}
	if large, ok := errors.AsType[*attend.TooLargeError](err); ok {
		return tooLong(called(large.Field, fields), large.Limit)
	}
	if _, ok := errors.AsType[*attend.EventError](err); ok { // neither of the two: not the event's fault
		return &reason{text: "the event's kind could not be told", status: http.StatusServiceUnavailable, retry: true}
	}
	p := problem.Of(err)
	return &reason{text: p.Detail, status: p.Status, retry: again(p.Status)}
}

func called(field string, fields map[string]string) string {
	if name, ok := fields[field]; ok {
		return name
	}
	return field
}
