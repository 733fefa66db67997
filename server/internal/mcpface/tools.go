package mcpface

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/attend-go/attend/server/internal/problem"
)

// The names of the tools.
const (
	WaitTool   = "attend_wait"
	WindowTool = "attend_window"
)

// A result is what a tool answers: the structured content, and a short text for
// hosts that show nothing else.
type result struct {
	content json.RawMessage
	text    string
}

// addTools adds the tools. They check their arguments and make their results by
// hand: the SDK's typed tools pass both through Go's numbers, which would change
// what producers sent.
func (f *Face) addTools() {
	closed := false
	hints := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed}
	f.mcp.AddTool(&mcp.Tool{
		Name: WaitTool, Title: "Wait for decisions", Annotations: hints,
		Description: "Waits for decisions about what deserves attention, and answers them as soon as there are some, oldest first, " +
			"with the cursor to pass back in the next call. Without a cursor it begins now. When nothing came in time it answers " +
			"an empty list and the cursor.",
		InputSchema: json.RawMessage(waitInput), OutputSchema: json.RawMessage(waitOutput),
	}, f.tool(f.wait))
	f.mcp.AddTool(&mcp.Tool{
		Name: WindowTool, Title: "Look at a window", Annotations: hints,
		Description: "Shows what is piling up in one scope now and is not decided yet: its open window, and what was put off or is being judged.",
		InputSchema: json.RawMessage(windowInput), OutputSchema: json.RawMessage(windowOutput),
	}, f.tool(f.window))
}

// tool is a handler of the SDK. What a model can mend is told in the result.
func (f *Face) tool(run func(ctx context.Context, args *args) (*result, error)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a, err := parseArgs(req.Params.Arguments)
		var res *result
		if err == nil {
			res, err = run(ctx, a)
		}
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err() // nobody waits for it
		}
		if err != nil {
			p := problem.Of(err)
			if p.Status >= 500 {
				f.log.Warn("mcpface: a tool failed", "tool", req.Params.Name, "err", err)
			}
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: p.Detail}}}, nil
		}
		return &mcp.CallToolResult{StructuredContent: res.content, Content: []mcp.Content{&mcp.TextContent{Text: res.text}}}, nil
	}
}

// args are the arguments of a call that were not asked for yet.
type args struct {
	left map[string]json.RawMessage
	err  error // the first that is wrong
}

func parseArgs(raw json.RawMessage) (*args, error) {
	a := new(args)
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return a, nil
	}
	if err := json.Unmarshal(raw, &a.left); err != nil {
		return nil, wrong("arguments", "an object")
	}
	return a, nil
}

// wrong says what an argument should have been.
func wrong(name, want string) error {
	return problem.With(400, name+": want "+want)
}

// take takes an argument; false: it is not there, or null.
func (a *args) take(name string) (json.RawMessage, bool) {
	raw, ok := a.left[name]
	delete(a.left, name)
	return raw, ok && string(bytes.TrimSpace(raw)) != "null"
}

func (a *args) fail(name, want string) {
	if a.err == nil {
		a.err = wrong(name, want)
	}
}

// text takes a string.
func (a *args) text(name string) string {
	var s string
	if raw, ok := a.take(name); ok && json.Unmarshal(raw, &s) != nil {
		a.fail(name, "a string")
	}
	return s
}

// number takes a whole number from least to most.
func (a *args) number(name string, zero, least, most int) int {
	raw, ok := a.take(name)
	if !ok {
		return zero
	}
	var v float64
	if json.Unmarshal(raw, &v) != nil || v != math.Trunc(v) || v < float64(least) || v > float64(most) {
		a.fail(name, fmt.Sprintf("a whole number from %d to %d", least, most))
		return zero
	}
	return int(v)
}

// end is the first thing that is wrong, arguments that nobody asked for included.
func (a *args) end(known ...string) error {
	if a.err == nil && len(a.left) > 0 {
		slices.Sort(known)
		return problem.With(400, "an argument is unknown; there are "+strings.Join(known, ", "))
	}
	return a.err
}
