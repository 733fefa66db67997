package attend_test

import (
	"context"
	"errors"
	"testing"

	attend "github.com/attend-go/attend/core"
)

func TestLetterFunc(t *testing.T) {
	busy := errors.New("busy")
	var got attend.DeadLetter
	var handler attend.LetterHandler = attend.LetterFunc(func(_ context.Context, l attend.DeadLetter) error {
		got = l
		return busy
	})
	if err := handler.Letter(t.Context(), attend.DeadLetter{ID: "1"}); !errors.Is(err, busy) || got.ID != "1" {
		t.Errorf("Letter = %v with %+v, want what the function answers", err, got)
	}
}

func TestLogLetters(t *testing.T) {
	if err := attend.LogLetters.Letter(t.Context(), attend.DeadLetter{}); err != nil {
		t.Errorf("LogLetters.Letter = %v, want nil", err)
	}
}
