package main

import (
	"errors"
	"io"
	"log/slog"
	"strconv"

	attend "github.com/attend-go/attend/core"
)

// newLogger logs to w without a clock's time: a replay says the same each time.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// reason says why a line was refused, for people and without any of its content.
func reason(err error) string {
	if inner, ok := errors.AsType[*attend.EventError](err); ok {
		err = inner.Err
	}
	if e, ok := errors.AsType[*attend.InvalidError](err); ok {
		return e.Field + ": want " + e.Want
	}
	if e, ok := errors.AsType[*attend.TooLargeError](err); ok {
		return e.Field + ": longer than " + strconv.Itoa(e.Limit) + " bytes"
	}
	if errors.Is(err, attend.ErrOutboxFull) {
		return "the scope's backlog is full"
	}
	return err.Error()
}
