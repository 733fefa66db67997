package machine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"

	attend "github.com/attend-go/attend/core"
)

// FuzzDecodeState reads arbitrary bytes as a state. Whatever is accepted is
// written back in one form, and can be stepped.
func FuzzDecodeState(f *testing.F) {
	for seed := range uint64(24) {
		for i, s := range fuzzStates(seed) {
			if i%5 == 4 {
				f.Add(EncodeState(s), fuzzBytes(seed, 60))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b, session []byte) {
		if err := fuzzDecodeState(b, session); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeInput reads arbitrary bytes as an input, and applies what is
// accepted to a state that the session makes.
func FuzzDecodeInput(f *testing.F) {
	for seed := range uint64(24) {
		g := newModelGen(fuzzBytes(seed, 200))
		var s State
		for i := 0; g.more(); i++ {
			in := g.next(s)
			if s, _ = Step(s, in); i%4 == 0 && fuzzWritable(in) {
				f.Add(EncodeInput(in), fuzzBytes(seed+1, 40))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b, session []byte) {
		if err := fuzzDecodeInput(b, session); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDecodeDamaged feeds both decoders real bytes with a few of them changed,
// missing or doubled.
func TestDecodeDamaged(t *testing.T) {
	sessions := uint64(60)
	if testing.Short() {
		sessions = 12
	}
	accepted := 0
	for seed := range sessions {
		r := rand.New(rand.NewPCG(seed, 2))
		g := newModelGen(fuzzBytes(seed, 300))
		var s State
		for g.more() {
			in := g.next(s)
			s, _ = Step(s, in)
			session := fuzzBytes(seed, 30)
			state := fuzzDamage(r, EncodeState(s))
			if err := fuzzDecodeState(state, session); err != nil {
				t.Fatalf("seed %d: state %x: %v", seed, state, err)
			}
			if _, err := DecodeState(state); err == nil {
				accepted++
			}
			if !fuzzWritable(in) {
				continue
			}
			input := fuzzDamage(r, EncodeInput(in))
			if err := fuzzDecodeInput(input, session); err != nil {
				t.Fatalf("seed %d: input %x: %v", seed, input, err)
			}
		}
	}
	if accepted == 0 {
		t.Error("no damaged state was accepted, so none was stepped")
	}
}

func fuzzDamage(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			break
		}
		switch at := r.IntN(len(b)); r.IntN(4) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at:at], b[max(0, at-r.IntN(9)):]...)
		}
	}
	return b
}

// fuzzStates are the states of a session, the hostile ones among them.
func fuzzStates(seed uint64) []State {
	g := newModelGen(fuzzBytes(seed, 300))
	g.hostile = seed%2 == 1
	var list []State
	var s State
	for g.more() {
		s, _ = Step(s, g.next(s))
		list = append(list, s)
	}
	return list
}

func fuzzDecodeState(b, session []byte) (err error) {
	defer fuzzPanic(&err)
	if err := fuzzRoom(len(b), func() { DecodeState(b) }); err != nil {
		return err
	}
	s, err := DecodeState(b)
	if err != nil {
		return fuzzRefused(err)
	}
	once := EncodeState(s)
	again, err := DecodeState(once)
	if err != nil {
		return fmt.Errorf("what was encoded can't be decoded: %w", err)
	}
	if twice := EncodeState(again); !bytes.Equal(once, twice) {
		return fmt.Errorf("encoded as %x, and then as %x", once, twice)
	}
	// Views of it must not panic either.
	modelStateView(s)
	s.Window()
	s.Held()
	s.Slot()
	s.Decisions()
	s.Letters()
	s.Work(s.Now())
	s.Ask(s.Now())
	g := newModelGen(session)
	g.hostile = true
	g.clock = max(g.clock, min(int64(s.now), int64(farthest)))
	for n := 0; g.more() && n < 30; n++ {
		was := EncodeState(s)
		next, _ := Step(s, g.next(s))
		if !bytes.Equal(was, EncodeState(s)) {
			return errors.New("Step changed its argument")
		}
		s = next
	}
	return nil
}

func fuzzDecodeInput(b, session []byte) (err error) {
	defer fuzzPanic(&err)
	if err := fuzzRoom(len(b), func() { DecodeInput(b) }); err != nil {
		return err
	}
	in, err := DecodeInput(b)
	if err != nil {
		return fuzzRefused(err)
	}
	once := EncodeInput(in)
	again, err := DecodeInput(once)
	if err != nil {
		return fmt.Errorf("what was encoded can't be decoded: %w", err)
	}
	if twice := EncodeInput(again); !bytes.Equal(once, twice) {
		return fmt.Errorf("encoded as %x, and then as %x", once, twice)
	}
	g := newModelGen(session)
	s, _ := Step(State{}, in)
	EncodeState(s)
	for n := 0; g.more() && n < 20; n++ {
		s, _ = Step(s, g.next(s))
	}
	s, _ = Step(s, in)
	EncodeState(s)
	return nil
}

// fuzzRefused checks that an error says what the decoders' comments promise.
func fuzzRefused(err error) error {
	if errors.Is(err, attend.ErrCorrupt) != errors.Is(err, attend.ErrNewer) {
		return nil
	}
	return fmt.Errorf("refused with %w, want ErrCorrupt or ErrNewer", err)
}

func fuzzPanic(err *error) {
	if v := recover(); v != nil {
		buf := make([]byte, 4<<10)
		*err = fmt.Errorf("panic: %v\n%s", v, buf[:runtime.Stack(buf, false)])
	}
}

// fuzzAllocated is how many bytes have been allocated so far, give or take what
// the allocator has not counted yet.
func fuzzAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// fuzzRoom refuses a decoder that takes much more memory than its bytes can
// stand for. What others allocate at the same time counts too, so it has to
// happen each time.
func fuzzRoom(size int, decode func()) error {
	var took uint64
	limit := uint64(1<<20 + 512*size)
	for range 3 {
		before := fuzzAllocated()
		decode()
		if took = fuzzAllocated() - before; took <= limit {
			return nil
		}
	}
	return fmt.Errorf("%d bytes took %d bytes of memory, three times", size, took)
}
