package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
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

// The formats of a server's log.
const (
	logText = "text"
	logJSON = "json"
)

// newServerLogger logs to w, in the format that fits it where none is given.
func newServerLogger(w io.Writer, format, level string) *slog.Logger {
	if format == "" {
		format = logJSON
		if terminal(w) {
			format = logText
		}
	}
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		at = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: at}
	if format == logText {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// terminal reports whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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
