package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/attendtest"
	"github.com/attend-go/attend/core/engine"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server"
)

// scrape returns the metrics by their name with labels.
func scrape(t testing.TB, m *server.Metrics) map[string]float64 {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if rec.Code != 200 {
		t.Fatalf("metrics = %d %s", rec.Code, rec.Body)
	}
	out := make(map[string]float64)
	lines := bufio.NewScanner(rec.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out[line[:i]] = v
	}
	return out
}

// want compares what is named.
func want(t testing.TB, m *server.Metrics, values map[string]float64) {
	t.Helper()
	got := scrape(t, m)
	for name, v := range values {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s = %v (there: %v), want %v", name, g, ok, v)
		}
	}
}

// measured makes a world that metrics look at.
func measured(t testing.TB, m *server.Metrics, e engine.Config) *world {
	t.Helper()
	e.Store = m.Store(memory.New())
	e.Judge = m.Judge("judge", e.Judge)
	e.Sink = m.Sink("sink", e.Sink)
	e.Observer = m.Observe
	return newWorld(t, e, server.Config{Metrics: m})
}

// Every name of the specification is there, and no scope is a label.
func TestMetricsNames(t *testing.T) {
	m := server.NewMetrics("1.2.3")
	w := measured(t, m, engine.Config{Judge: attend.RuleJudge, Sink: attend.LogOnly})
	if _, err := w.engine.Push(t.Context(), "scope-of-the-test", attend.Event{ID: "1", Name: "flush.x"}); err != nil {
		t.Fatal(err)
	}
	m.Tokens("judge", 100, 7)
	got := scrape(t, m)
	for _, name := range []string{
		`attend_events_total{result="accepted"}`, `attend_events_total{result="duplicate"}`, `attend_events_total{result="rejected"}`,
		`attend_events_dropped_total{reason="count"}`, `attend_window_settles_total{reason="flush"}`, `attend_window_events_count`,
		`attend_settle_lag_seconds_count`, `attend_judge_requests_total{judge="judge",outcome="ok"}`,
		`attend_judge_duration_seconds_count{judge="judge"}`, `attend_judge_tokens_total{direction="in",judge="judge"}`,
		`attend_judge_tokens_total{direction="out",judge="judge"}`,
		`attend_verdicts_total{changed_by="",route="interrupt"}`, `attend_verdicts_total{changed_by="threshold",route="interrupt"}`,
		`attend_deliveries_total{outcome="ok",sink="sink"}`, `attend_delivery_lag_seconds_count`, `attend_dead_letters`, `attend_outbox_depth`,
		`attend_subscribers{transport="sse"}`, `attend_subscribers{transport="mcp"}`, `attend_subscriber_last_delivery_age_seconds`,
		`attend_listener_reconnects_total`, `attend_store_commit_seconds_count`, `attend_store_group_writes_count`,
		`attend_store_conflicts_total`,
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not there", name)
		}
	}
	build := false
	for name := range got {
		build = build || strings.HasPrefix(name, `attend_build_info{`) && strings.Contains(name, `version="1.2.3"`)
		if strings.Contains(name, "scope-of-the-test") || !strings.HasPrefix(name, "attend_") {
			t.Errorf("%s is no name of attend's, or holds a scope", name)
		}
	}
	if !build {
		t.Error("attend_build_info lacks the version")
	}
	if got := w.ask("GET", "/metrics", ""); got.status != 200 || !strings.Contains(got.body, "attend_events_total") {
		t.Errorf("GET /metrics = %d %.100q", got.status, got.body)
	}
	if n, ok := got["attend_scopes_resident"]; !ok || n != 1 {
		t.Errorf("attend_scopes_resident = %v, want 1", n)
	}
	m.Reconnected()
	want(t, m, map[string]float64{
		"attend_listener_reconnects_total": 1, `attend_judge_tokens_total{direction="out",judge="judge"}`: 7,
	})
}

// What happens is counted, with a sink.
func TestMetricsOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := server.NewMetrics("")
		judge := &attendtest.Judge{Script: []attendtest.Answer{
			attendtest.Fail(),
			{Route: attend.RouteQueue, Probabilities: map[attend.Route]float64{attend.RouteInterrupt: 0.9, attend.RouteQueue: 0.1}},
		}}
		sink := new(attendtest.Sink)
		sink.Fail(1)
		w := measured(t, m, engine.Config{Judge: judge, Sink: sink, ActThreshold: 0.5})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.engine.Run(ctx) }()

		push := func(events ...attend.Event) {
			t.Helper()
			if _, err := w.engine.Push(ctx, "ops", events...); err != nil {
				t.Fatal(err)
			}
		}
		push(attend.Event{ID: "1", Name: "log"}, attend.Event{ID: "2", Name: "closing.x"})
		push(attend.Event{ID: "1", Name: "log"})
		time.Sleep(10 * time.Second) // settled, failed once, judged, delivery failed once, delivered
		synctest.Wait()
		want(t, m, map[string]float64{
			`attend_events_total{result="accepted"}`:                          2,
			`attend_events_total{result="duplicate"}`:                         1,
			`attend_window_settles_total{reason="closing"}`:                   1,
			`attend_window_events_sum`:                                        2,
			`attend_settle_lag_seconds_sum`:                                   0,
			`attend_judge_requests_total{judge="judge",outcome="error"}`:      1,
			`attend_judge_requests_total{judge="judge",outcome="ok"}`:         1,
			`attend_judge_duration_seconds_count{judge="judge"}`:              2,
			`attend_verdicts_total{changed_by="",route="interrupt"}`:          0,
			`attend_verdicts_total{changed_by="threshold",route="interrupt"}`: 1,
			`attend_verdicts_total{changed_by="",route="queue"}`:              0,
			`attend_deliveries_total{outcome="error",sink="sink"}`:            1,
			`attend_deliveries_total{outcome="ok",sink="sink"}`:               1,
			`attend_delivery_lag_seconds_count`:                               1,
			`attend_delivery_lag_seconds_sum`:                                 2.5, // grace, and a second for each retry
			`attend_outbox_depth`:                                             0,
			`attend_dead_letters`:                                             0,
		})
		cancel()
		<-done
	})
}

// A log alone delivers with the decision's commit.
func TestMetricsOfALogOnlyEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := server.NewMetrics("")
		judge := &attendtest.Judge{Script: []attendtest.Answer{{Route: attend.RouteNote}, {Route: attend.RouteSkip}, attendtest.FailPermanently()}}
		w := measured(t, m, engine.Config{Judge: judge, Sink: attend.LogOnly})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.engine.Run(ctx) }()
		for i := range 3 {
			if _, err := w.engine.Push(ctx, "ops", attend.Event{ID: fmt.Sprint(i), Name: "closing.x"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		want(t, m, map[string]float64{
			`attend_deliveries_total{outcome="ok",sink="sink"}`:              1,
			`attend_delivery_lag_seconds_count`:                              1,
			`attend_delivery_lag_seconds_sum`:                                0.5,
			`attend_verdicts_total{changed_by="",route="note"}`:              1,
			`attend_verdicts_total{changed_by="",route="skip"}`:              1,
			`attend_judge_requests_total{judge="judge",outcome="permanent"}`: 1,
			`attend_dead_letters`:                                            1,
		})
		cancel()
		<-done
	})
}

// What waits in the lanes is known to the store, whoever put it there.
func TestMetricsOfTheLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		sink := new(attendtest.Sink)
		sink.Fail(1000)
		never := attend.LetterFunc(func(context.Context, attend.DeadLetter) error { return errors.New("not now") })
		first := newWorld(t, engine.Config{Store: store, Sink: sink, DeadLetter: never}, server.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- first.engine.Run(ctx) }()
		for i := range 3 {
			if _, err := first.engine.Push(ctx, attend.Scope(fmt.Sprint("ops/", i)), attend.Event{ID: "1", Name: "flush.x"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		m := server.NewMetrics("") // of another process, which never saw them
		m.Store(store)
		want(t, m, map[string]float64{`attend_outbox_depth`: 3, `attend_dead_letters`: 0})
		time.Sleep(time.Minute) // the sink is given up
		want(t, m, map[string]float64{`attend_outbox_depth`: 0, `attend_dead_letters`: 3})
		cancel()
		<-done

		_ = store.Close() // what comes now is that there is no answer
		time.Sleep(time.Minute)
		got := scrape(t, m)
		if _, ok := got[`attend_outbox_depth`]; ok {
			t.Error("a store that does not answer has a depth")
		}
	})
}

// A store's own commits are measured, and keep what they are.
func TestMetricsOfAStore(t *testing.T) {
	m := server.NewMetrics("")
	s := m.Store(memory.New())
	if _, ok := s.(io.Closer); !ok {
		t.Error("the store can't be closed any more")
	}
	write := attend.Write{Scope: "a", Inputs: [][]byte{{1}}}
	for range 2 { // the second comes too late
		if _, err := s.Commit(t.Context(), []attend.Write{write, {Scope: "b", Inputs: [][]byte{{1}}, Expect: 77}}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, m, map[string]float64{
		`attend_store_commit_seconds_count`: 2, `attend_store_group_writes_sum`: 4, `attend_store_conflicts_total`: 3,
	})
	type log interface {
		attend.EventLog
		attend.EventWaiter
	}
	for _, c := range []struct {
		store               attend.ScopeStore
		closes, logs, waits bool
	}{
		{struct{ attend.ScopeStore }{s}, false, false, false},
		{struct {
			attend.ScopeStore
			attend.EventLog
		}{s, nil}, false, true, false},
		{struct {
			attend.ScopeStore
			log
		}{s, nil}, false, true, true},
		{struct {
			attend.ScopeStore
			io.Closer
			attend.EventLog
		}{s, nil, nil}, true, true, false},
		{struct {
			attend.ScopeStore
			io.Closer
			log
		}{s, nil, nil}, true, true, true},
	} {
		got := m.Store(c.store)
		_, closes := got.(io.Closer)
		_, logs := got.(attend.EventLog)
		_, waits := got.(attend.EventWaiter)
		if closes != c.closes || logs != c.logs || waits != c.waits {
			t.Errorf("%T: closer %v, event log %v, waiter %v, want %v, %v, %v", c.store, closes, logs, waits, c.closes, c.logs, c.waits)
		}
		if _, ok := got.Log().(attend.Waiter); !ok {
			t.Errorf("%T: its log can't wait any more", c.store)
		}
	}
	if m.Store(nil) != nil {
		t.Error("no store has become one")
	}
}

type budgeted struct{ attend.JudgeFunc }

func (budgeted) Budget() attend.Budget { return attend.Budget{ContextTokens: 1000} }

type budgetedPure struct{ attend.PureJudge }

func (budgetedPure) Budget() attend.Budget { return attend.Budget{ContextTokens: 2000} }

// A judge keeps what an engine looks for.
func TestMetricsOfAJudge(t *testing.T) {
	m := server.NewMetrics("")
	plain := attend.JudgeFunc(func(ctx context.Context, in attend.JudgeInput) (attend.Judgment, error) {
		switch in.Guidance {
		case "":
			return attend.Judgment{Route: attend.RouteQueue}, nil
		case "panic":
			panic("as it was told")
		case "account":
			return attend.Judgment{}, attend.PermanentAccount(io.EOF)
		case "timeout":
			return attend.Judgment{}, fmt.Errorf("wrapped: %w", context.DeadlineExceeded)
		default:
			return attend.Judgment{Route: attend.RouteWait}, nil
		}
	})
	for _, c := range []struct {
		judge  attend.Judge
		pure   bool
		budget int
	}{{plain, false, 0}, {attend.RuleJudge, true, 0}, {budgeted{plain}, false, 1000}, {budgetedPure{attend.RuleJudge}, true, 2000}} {
		got := m.Judge("j", c.judge)
		_, pure := got.(attend.PureJudge)
		b, budget := got.(attend.Budgeter)
		if pure != c.pure || budget != (c.budget > 0) || budget && b.Budget().ContextTokens != c.budget {
			t.Errorf("%T: pure %v, budget %v, want %v, %d", c.judge, pure, budget, c.pure, c.budget)
		}
		if j, err := got.Judge(t.Context(), attend.JudgeInput{Routes: attend.AllRoutes()}); err != nil || j.Route != attend.RouteQueue {
			t.Errorf("%T: Judge = %v, %v", c.judge, j, err)
		}
	}
	j := m.Judge("k", plain)
	for _, how := range []string{"account", "timeout", "invalid"} {
		_, _ = j.Judge(t.Context(), attend.JudgeInput{Guidance: how, Routes: []attend.Route{attend.RouteQueue}})
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic is lost, which the engine would have logged")
			}
		}()
		_, _ = j.Judge(t.Context(), attend.JudgeInput{Guidance: "panic"})
	}()
	want(t, m, map[string]float64{
		`attend_judge_requests_total{judge="j",outcome="ok"}`: 4, `attend_judge_requests_total{judge="k",outcome="panic"}`: 1,
		`attend_judge_requests_total{judge="k",outcome="account"}`: 1, `attend_judge_requests_total{judge="k",outcome="timeout"}`: 1,
		`attend_judge_requests_total{judge="k",outcome="invalid"}`: 1,
	})
	if m.Judge("n", nil) != nil || m.Judge("n", attend.JudgeFunc(nil)).(attend.JudgeFunc) != nil {
		t.Error("no judge has become one: an engine would not say that it lacks one")
	}
}

// A sink keeps what an engine looks for.
func TestMetricsOfASink(t *testing.T) {
	m := server.NewMetrics("")
	if m.Sink("log", attend.LogOnly) != attend.LogOnly {
		t.Error("the engine would not know a log alone any more")
	}
	if m.Sink("n", nil) != nil || m.Sink("n", attend.SinkFunc(nil)).(attend.SinkFunc) != nil {
		t.Error("no sink has become one")
	}
	cfg := engine.Config{
		Store: memory.New(), Kind: kind, Judge: attend.RuleJudge, DeadLetter: attend.LogLetters,
		Sink: m.Sink("routes", attend.Routes{Queue: func(context.Context, attend.Decision) error { return nil }}),
	}
	if _, err := engine.New(cfg); !errors.Is(err, attend.ErrInvalid) || !strings.Contains(err.Error(), "Interrupt") {
		t.Errorf("engine.New with a route that has no handler: %v, want it named", err)
	}
}

// A look between a verdict and its change shows no count that falls later.
func TestMetricsVerdictsNeverFall(t *testing.T) {
	m := server.NewMetrics("")
	seen := `attend_verdicts_total{changed_by="",route="queue"}`
	judged := attend.Judged{Verdict: attend.Verdict{Judgment: attend.Judgment{Route: attend.RouteQueue}}}
	var got []float64
	m.Observe(judged)
	got = append(got, scrape(t, m)[seen])
	m.Observe(attend.Thresholded{From: attend.RouteInterrupt, To: attend.RouteQueue})
	got = append(got, scrape(t, m)[seen])
	m.Observe(judged)
	got = append(got, scrape(t, m)[seen])
	m.Observe(judged)
	got = append(got, scrape(t, m)[seen])
	if !slices.IsSorted(got) || got[3] != 2 {
		t.Errorf("%s was %v, want it to rise to 2", seen, got)
	}
}

// What ingest refuses is counted, and what it accepts is not counted twice.
func TestMetricsOfIngest(t *testing.T) {
	m := server.NewMetrics("")
	w := measured(t, m, engine.Config{Judge: attend.RuleJudge, Sink: attend.LogOnly})
	body := `{"scope":"ops","id":"1","name":"log"}` + "\nrubbish\n" + `{"scope":"ops","id":"1","name":"log"}` + "\n"
	if got := w.ask("POST", "/v1/ingest", body, "Content-Type", "application/x-ndjson"); got.status != 200 {
		t.Fatalf("ingest = %d %s", got.status, got.body)
	}
	want(t, m, map[string]float64{
		`attend_events_total{result="accepted"}`: 1, `attend_events_total{result="duplicate"}`: 1, `attend_events_total{result="rejected"}`: 1,
	})
}

// Readers are counted while they are here.
func TestMetricsOfSubscribers(t *testing.T) {
	m := server.NewMetrics("")
	w := measured(t, m, engine.Config{Judge: attend.RuleJudge, Sink: attend.LogOnly})
	url, stop := w.serving(t, server.Listen{})
	r, err := http.NewRequest("GET", url+"/v1/decisions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	want(t, m, map[string]float64{`attend_subscribers{transport="sse"}`: 1})
	if age := scrape(t, m)["attend_subscriber_last_delivery_age_seconds"]; age <= 0 || age > 10 {
		t.Errorf("the age of the last delivery is %v s, want what it is", age)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	want(t, m, map[string]float64{`attend_subscribers{transport="sse"}`: 0})
}

// An app can show the metrics in a registry of its own.
func TestMetricsInAnotherRegistry(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(server.NewMetrics("")); err != nil {
		t.Fatal(err)
	}
	all, err := r.Gather()
	if err != nil || len(all) < 14 {
		t.Errorf("gathered %d families, %v", len(all), err)
	}
}
