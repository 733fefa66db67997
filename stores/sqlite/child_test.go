//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// A job is what a child process does to a file.
type job struct {
	Do   string // a name in jobs
	File string
	Name string // of the child
	N    int
}

// childEnv holds the job of a child, which is this test binary.
const childEnv = "ATTEND_SQLITE_JOB"

// A result is what a child says last on its standard output.
type result struct {
	Done []string // ids
	Err  string
}

// TestChild does a job in a child process. It is no test by itself.
func TestChild(t *testing.T) {
	text := os.Getenv(childEnv)
	if text == "" {
		t.Skip("this is what a child of other tests runs")
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	var r result
	done, err := jobs()[j.Do](t.Context(), j)
	r.Done = done
	if err != nil {
		r.Err = err.Error()
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", out)
	os.Stdout.Close()
}

func jobs() map[string]func(context.Context, job) ([]string, error) {
	return map[string]func(context.Context, job) ([]string, error){
		"commit": commitJob, "append": appendJob, "readonly": readonlyJob, "full": fullJob,
	}
}

// A child is a process that works on its job.
type child struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

func start(t *testing.T, j job) *child {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd, out}
}

// wait returns what the child did.
func (c *child) wait(t *testing.T) result {
	t.Helper()
	var r result
	line, err := bufio.NewReader(c.out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err := errors.Join(err, c.cmd.Wait()); err != nil {
		t.Fatalf("child: %v, after %q", err, line)
	}
	return r
}

// ok is wait for a child that must not fail.
func (c *child) ok(t *testing.T) []string {
	t.Helper()
	r := c.wait(t)
	if r.Err != "" {
		t.Fatalf("child: %s", r.Err)
	}
	return r.Done
}

// commitJob adds an input to one of a few scopes that all children write, and a
// row of the log with it, until N have landed.
func commitJob(ctx context.Context, j job) (done []string, err error) {
	s, err := sqlite.Open(ctx, j.File, sqlite.Config{Retain: attend.Retain{Verdicts: 20}, Budget: 2000})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := 0; len(done) < j.N; i++ {
		scope := attend.Scope(fmt.Sprint("shared/", i%5))
		rec, err := s.Load(ctx, scope)
		if err != nil {
			return done, err
		}
		id := fmt.Sprintf("%s-%d", j.Name, len(done))
		w := attend.Write{Scope: scope, Expect: rec.Version, Inputs: [][]byte{[]byte(id)}, Rows: []attend.Row{
			{Scope: scope, ID: attend.DecisionID(id), Type: attend.RowDecision},
			{Scope: scope, ID: attend.DecisionID(id), Type: attend.RowVerdict},
		}}
		out, err := s.Commit(ctx, []attend.Write{w, {Scope: attend.Scope(id), Inputs: [][]byte{nil}}})
		if err != nil {
			return done, err
		}
		if out[0].Conflict() { // the other write of the group landed
			if err := s.Remove(ctx, attend.Scope(id)); err != nil {
				return done, err
			}
			continue
		}
		done = append(done, id)
	}
	return done, nil
}

// appendJob appends N events, of which other children append the same ones.
func appendJob(ctx context.Context, j job) (done []string, err error) {
	l, err := sqlite.OpenEventLog(ctx, j.File, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for i := range j.N {
		own, shared := fmt.Sprintf("%s-%d", j.Name, i), fmt.Sprint("shared-", i)
		err := l.Append(ctx, "log", []attend.Event{{ID: own, Name: "n"}, {ID: shared, Name: "n"}})
		if err != nil {
			return done, err
		}
		done = append(done, own, shared)
	}
	return done, nil
}
