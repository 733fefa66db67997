package postgres_test

import (
	"errors"
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

func TestTailThatIsCut(t *testing.T) {
	for _, b := range [][]byte{{1}, {5, 'a'}, {0xff}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}} {
		if got, err := postgres.SplitTail(b); !errors.Is(err, attend.ErrCorrupt) {
			t.Errorf("splitTail(%v) = %q, %v, want an error that is ErrCorrupt", b, got, err)
		}
	}
}
