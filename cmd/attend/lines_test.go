package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	attend "github.com/attend-go/attend/core"
)

// read is each line with its number, "long" for one that is too long.
func read(t *testing.T, r io.Reader, limit int) []string {
	t.Helper()
	l := newLineReader(r, limit)
	var got []string
	for {
		b, err := l.next()
		switch {
		case err == nil:
			got = append(got, fmt.Sprintf("%d %s", l.number, b))
		case errors.Is(err, attend.ErrTooLarge):
			got = append(got, fmt.Sprintf("%d long", l.number))
		case errors.Is(err, io.EOF):
			return got
		default:
			t.Fatal(err)
		}
	}
}

func TestLines(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"blank lines count", "\n \n\na\n", []string{"4 a"}},
		{"no end", "a\nb", []string{"1 a", "2 b"}},
		{"ends of another system", "a\r\nb\r\n", []string{"1 a", "2 b"}},
		{"a mark at the beginning, and no other", "\ufeffa\n\ufeffb\n", []string{"1 a", "2 \ufeffb"}},
		{"space of JSON alone", " \t\r\n\u00a0\n\va\n", []string{"2 \u00a0", "3 \va"}},
		{"as long as may be", "12345678\nb\n", []string{"1 12345678", "2 b"}},
		{"too long", "123456789\nb\n", []string{"1 long", "2 b"}},
		{"too long without an end", "a\n123456789", []string{"1 a", "2 long"}},
		{"too long of blanks", "         \nb\n", []string{"1 long", "2 b"}},
	} {
		if got := read(t, strings.NewReader(test.in), 8); !slices.Equal(got, test.want) {
			t.Errorf("%s: lines %q, want %q", test.name, got, test.want)
		}
		if got := read(t, iotest.OneByteReader(strings.NewReader(test.in)), 8); !slices.Equal(got, test.want) {
			t.Errorf("%s, byte by byte: lines %q, want %q", test.name, got, test.want)
		}
	}
}

func TestLinesBoundMemory(t *testing.T) {
	l := newLineReader(io.MultiReader(io.LimitReader(endless('x'), 64<<20), strings.NewReader("\nb\n")), 1<<20)
	if _, err := l.next(); !errors.Is(err, attend.ErrTooLarge) {
		t.Fatalf("next: %v, want ErrTooLarge", err)
	}
	if b, err := l.next(); string(b) != "b" || err != nil {
		t.Errorf("next = %q, %v, want b", b, err)
	}
	if c := cap(l.buf); c > 3<<20 {
		t.Errorf("a line of 64 MiB left a buffer of %d bytes, want 3 MiB at most", c)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestLinesReportTheReadersError(t *testing.T) {
	broken := errors.New("broken")
	l := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 8)
	if b, err := l.next(); string(b) != "a" || err != nil {
		t.Errorf("next = %q, %v, want a", b, err)
	}
	if b, err := l.next(); !errors.Is(err, broken) {
		t.Errorf("next = %q, %v, want the reader's error", b, err)
	}
}

// FuzzLines compares with the obvious way, over buffers of every length.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\n bb \r\nccccccccc\nd"), uint8(4))
	f.Add(bytes.Repeat([]byte("x"), 70_000), uint8(255))
	f.Add([]byte("\f\n\v x \u00a0\n"), uint8(91))
	f.Fuzz(func(t *testing.T, b []byte, limit uint8) {
		var want []string
		text := strings.TrimSuffix(string(b), "\n")
		for i, s := range strings.Split(text, "\n") {
			if text == "" && !bytes.HasPrefix(b, []byte("\n")) {
				break
			}
			if len(s) > int(limit) {
				want = append(want, fmt.Sprintf("%d long", i+1))
				continue
			}
			if i == 0 {
				s = strings.TrimPrefix(s, "\ufeff")
			}
			if s = strings.Trim(s, " \t\r"); s != "" { // JSON's space, without the end of a line
				want = append(want, fmt.Sprintf("%d %s", i+1, s))
			}
		}
		if got := read(t, bytes.NewReader(b), int(limit)); !slices.Equal(got, want) {
			t.Errorf("lines of %q within %d: %q, want %q", b, limit, got, want)
		}
	})
}

// A line that has begun may still be long in coming.
func TestLinesWait(t *testing.T) {
	in, out := io.Pipe()
	go func() { // a write is one read
		fmt.Fprint(out, "a\nb\nc")
		fmt.Fprint(out, "c\n")
		out.Close()
	}()
	l := newLineReader(in, 8)
	var got []string
	for waits := l.waits(); ; waits = l.waits() {
		b, err := l.next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprint(waits, " ", string(b)))
	}
	if want := []string{"true a", "false b", "true cc"}; !slices.Equal(got, want) {
		t.Errorf("waits before lines: %q, want %q", got, want)
	}
}
