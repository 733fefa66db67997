package redis

import (
	"context"
	"crypto/sha1" // the name that Redis gives a script
	"embed"
	"encoding/hex"
	"fmt"

	"github.com/redis/rueidis"
)

//go:embed lua/*.lua
var sources embed.FS

// A script is a Lua program that the server knows by its hash once it has run
// it. A server that was restarted knows none.
type script struct {
	text, sha string
	twice     bool // it may be run twice: it reads, or does the same again
}

var (
	commitScript = newScript("commit", false)
	appendScript = newScript("append", false)
	removeScript = newScript("remove", false)
	trimScript   = newScript("trim", true)
	adoptScript  = newScript("adopt", true)
	rightsScript = newScript("rights", true)
	pageScript   = newScript("page", true)
	findScript   = newScript("find", true)
	staleScript  = newScript("stale", true)
	dueScript    = newScript("due", true)
)

func newScript(name string, twice bool) *script {
	var text []byte
	for _, file := range []string{"common", name} {
		b, err := sources.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		text = append(text, b...)
	}
	sum := sha1.Sum(text)
	return &script{text: string(text), sha: hex.EncodeToString(sum[:]), twice: twice}
}

// A call is the keys and arguments of one run.
type call struct{ keys, args []string }

func (s *script) byHash(c rueidis.Client, in call) rueidis.Completed {
	return s.completed(c.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(in.keys))).Key(in.keys...).Arg(in.args...).Build())
}

func (s *script) byText(c rueidis.Client, in call) rueidis.Completed {
	return s.completed(c.B().Eval().Script(s.text).Numkeys(int64(len(in.keys))).Key(in.keys...).Arg(in.args...).Build())
}

// completed lets the client send again what may be run twice, when a connection
// is lost. The rest it sends once, as far as it lies with us; see link.noting.
// A command is pinned, here and elsewhere, or the client would use its memory
// again as soon as it has an answer, while a connection that ends may still hold
// it: the client sends what only reads, or may be run twice, over another one.
func (s *script) completed(cmd rueidis.Completed) rueidis.Completed {
	if s.twice {
		return cmd.ToRetryable().Pin()
	}
	return cmd.Pin()
}

// run runs the script once, and returns what it answered.
func (s *script) run(ctx context.Context, c rueidis.Client, in call) ([]string, error) {
	r := c.Do(ctx, s.byHash(c, in))
	if unknown(r.Error()) {
		r = c.Do(ctx, s.byText(c, in))
	}
	return answer(r)
}

// runAll runs it once for each call, in one trip, and stops at the first that
// got no answer.
func (s *script) runAll(ctx context.Context, c rueidis.Client, in []call) ([][]string, error) {
	if len(in) == 1 {
		a, err := s.run(ctx, c, in[0])
		return [][]string{a}, err
	}
	cmds := make([]rueidis.Completed, len(in))
	for i := range in {
		cmds[i] = s.byHash(c, in[i])
	}
	out := make([][]string, len(in))
	for i, r := range c.DoMulti(ctx, cmds...) {
		if unknown(r.Error()) {
			r = c.Do(ctx, s.byText(c, in[i]))
		}
		var err error
		if out[i], err = answer(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func answer(r rueidis.RedisResult) ([]string, error) {
	a, err := r.AsStrSlice()
	if err == nil && len(a) == 0 {
		err = fmt.Errorf("a script answered nothing")
	}
	return a, err
}

// unknown reports whether the server has yet to learn the script. It has run
// nothing of it then.
func unknown(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && e.IsNoScript()
}
