package mcpevents

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioChild is set in the process that serves on its standard streams.
const stdioChild = "MCPEVENTS_STDIO_CHILD"

// TestStdioChild is that process: it appends as many events as it is told to once
// somebody listens, and serves until the end of input.
func TestStdioChild(t *testing.T) {
	if os.Getenv(stdioChild) == "" {
		t.Skip("runs as the child of the other tests")
	}
	l := rawLog(LogConfig{MaxEvents: 200_000, MaxBytes: 1 << 30})
	s, m := rawServer(t, ServerConfig{}, rawType(l))
	go func() {
		for s.live() == 0 {
			time.Sleep(time.Millisecond)
		}
		n := 0
		_, _ = fmt.Sscan(os.Getenv(stdioChild), &n)
		for i := range n {
			_ = l.Append(rawEvent(fmt.Sprint("e", i), 1))
		}
	}()
	err := m.Run(t.Context(), s.Transport(&mcp.StdioTransport{}))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// child starts it.
func child(t *testing.T, events int) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestStdioChild$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", stdioChild, events))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, in, bufio.NewReaderSize(out, 1<<16)
}

func childLine(t *testing.T, out *bufio.Reader) rawMessage {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("from the child: %v", err)
	}
	return rawDecode(t, line)
}

func TestStdioStreamOf100000WithAReaderThatPauses(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 5_000
	}
	cmd, in, out := child(t, n)
	_, _ = fmt.Fprintln(in, rawCall("s", methodStream, `"name":"alert",`))
	if m := childLine(t, out); m.Method != noteActive {
		t.Fatalf("got %s, want active", m.Text)
	}
	for i := range n {
		if i == n/4 || i == n/2 {
			time.Sleep(300 * time.Millisecond)
		}
		line, err := out.ReadSlice('\n')
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if !bytes.Contains(line, []byte(fmt.Sprintf(`"eventId":"e%d"`, i))) {
			t.Fatalf("event %d is %.200s", i, line)
		}
	}
	_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
	_, _ = fmt.Fprintln(in, rawCall(1, methodList, ""))
	if m := childLine(t, out); string(m.ID) != "1" || m.Error != nil { // SE-46: nothing between
		t.Errorf("after the cancellation came %s, want the answer to the list", m.Text)
	}
	_ = in.Close()
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("at the end came %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
}

func TestStdioLastAnswersAreNotLost(t *testing.T) {
	for round := range 3 {
		cmd, in, out := child(t, 0)
		var all strings.Builder
		for i := range 20 {
			all.WriteString(rawCall(i, "tools/call", `"name":"echo","arguments":{"text":"x"},`) + "\n")
		}
		all.WriteString(rawCall("s", methodStream, `"name":"alert",`) + "\n") // ends with the input
		if _, err := io.WriteString(in, all.String()); err != nil {
			t.Fatal(err)
		}
		_ = in.Close()
		text, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), `"result"`); got != 20 {
			t.Errorf("round %d: %d answers, want 20", round, got)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child ended with %v", err)
		}
	}
}

func TestSE45StdioEndOfInputWithAListen(t *testing.T) {
	cmd, in, out := child(t, 0)
	_, _ = fmt.Fprintln(in, rawCall("l", methodListen, `"notifications":{"toolsListChanged":true,"eventsListChanged":true},`))
	childLine(t, out)
	_, _ = fmt.Fprintln(in, rawCall("s", methodStream, `"name":"alert",`))
	childLine(t, out)
	began := time.Now()
	_ = in.Close()
	_, _ = io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v to end", took)
	}
}
