package mcpevents

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// A mixedPeer sends calls of all kinds, in any order, and cancels some.
type mixedPeer struct {
	p    *rawPipe
	rand *rand.Rand

	mu  sync.Mutex
	ids map[string]string // open, cancelled, or nothing
}

// step sends one message.
func (x *mixedPeer) step() {
	id := fmt.Sprint(x.rand.IntN(300))
	x.mu.Lock()
	call, open := "", x.ids[id]
	switch what := x.rand.IntN(6); {
	case open == "open" && what < 3:
		call = fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
		x.ids[id] = "cancelled" // for good: an answer may be under way
	case open != "":
	case what < 2:
		call = rawCall(json.RawMessage(id), methodStream, `"name":"alert",`)
	case what == 2:
		call = rawCall(json.RawMessage(id), methodListen, `"notifications":{"eventsListChanged":true},`)
	case what == 3:
		call = rawCall(json.RawMessage(id), methodListen, `"notifications":{"eventsListChanged":true,"toolsListChanged":true},`)
	default:
		call = rawCall(json.RawMessage(id), methodPoll, `"name":"alert",`)
	}
	if call != "" && open == "" {
		x.ids[id] = "open"
	}
	x.mu.Unlock()
	if call != "" {
		x.p.send(call)
	}
}

// hear reads until the answer to the id "last".
func (x *mixedPeer) hear() (errs []string) {
	for {
		line, err := x.p.in.ReadString('\n')
		if err != nil {
			return append(errs, err.Error())
		}
		var m rawMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return append(errs, err.Error())
		}
		if m.Method != "" {
			continue
		}
		if string(m.ID) == `"last"` {
			return errs
		}
		x.mu.Lock()
		if x.ids[string(m.ID)] == "" || m.Error != nil && m.Error.Code == -32600 {
			errs = append(errs, "answer to nothing, or in use: "+line)
		}
		if x.ids[string(m.ID)] == "open" {
			x.ids[string(m.ID)] = ""
		}
		x.mu.Unlock()
	}
}

// Whatever a peer does, while types and tools come and go and the server closes:
// nothing is answered twice, and nothing comes to a stop.
func TestPipeAnswersEachCallOnce(t *testing.T) {
	for round := range 2 {
		seed := rand.Uint64()
		l := rawLog(LogConfig{MaxEvents: 100})
		s, m := rawServer(t, ServerConfig{MaxStreams: 30}, rawType(l))
		x := &mixedPeer{p: rawDial(t, t.Context(), s, m), rand: rand.New(rand.NewPCG(seed, 0)), ids: map[string]string{}}
		heard := make(chan []string, 1)
		go func() { heard <- x.hear() }()
		var wg sync.WaitGroup
		for i := range 1500 {
			x.step()
			switch {
			case i%100 == 0:
				wg.Go(func() { aTool(m, fmt.Sprint("tool", i)) })
			case i%100 == 30:
				wg.Go(func() { _ = l.Append(rawEvent(fmt.Sprint("e", i), 1)) })
			case i%100 == 60:
				wg.Go(func() { s.Withdraw("alert"); _ = s.Offer(rawType(l)) })
			case i == 1200 && round%2 == 0:
				wg.Go(func() { _ = s.Close() })
			}
		}
		x.p.send(rawCall("last", methodList, ""))
		select {
		case errs := <-heard:
			for _, e := range errs {
				t.Errorf("seed %d: %s", seed, e)
			}
		case <-time.After(rawPatience):
			t.Fatalf("seed %d: the last call is not answered", seed)
		}
		_ = x.p.conn.Close()
		wg.Wait()
	}
}
