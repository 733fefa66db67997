package mcpevents

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// heap is what is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Who opens streams by large requests does not have the server hold these.
func TestAnOpenStreamDoesNotHoldItsRequest(t *testing.T) {
	const n, large = 20, 300 << 10
	for method, params := range map[string]string{methodStream: `"name":"alert",`, methodListen: `"notifications":{"eventsListChanged":true},`} {
		body := func(i int) string {
			return rawCall(fmt.Sprint("s", i), method, params+`"unknown":"`+strings.Repeat("x", large)+`",`)
		}
		open := map[string]func(p *rawPipe, url string, i int){
			"pipe": func(p *rawPipe, _ string, i int) { p.send(body(i)); p.next() },
			"http": func(_ *rawPipe, url string, i int) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				text := body(i)
				_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
					"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nContent-Length: %d\r\n\r\n%s", method, len(text), text)
				for in := bufio.NewReader(conn); ; {
					if line, err := in.ReadString('\n'); err != nil {
						t.Fatal(err)
					} else if strings.HasPrefix(line, "data: ") {
						return
					}
				}
			},
		}
		for over, open := range open {
			s, m := rawServer(t, ServerConfig{}, alerts()...)
			p := rawDial(t, t.Context(), s, m)
			url := rawListen(t, s, m, HandlerConfig{}).URL
			open(p, url, n)
			before := heap()
			for i := range n {
				open(p, url, i)
			}
			if grown := heap() - before; grown > n*large/2 {
				t.Errorf("%s over %s: %d of them hold %d KiB each", method, over, n, grown/n>>10)
			}
			_ = p.conn.Close() // nobody reads how they end
		}
	}
}
