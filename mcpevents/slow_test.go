package mcpevents

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowly is a backend that takes its time.
type slowly struct {
	*Log
	d time.Duration
}

func (b slowly) Read(ctx context.Context, sub Subscription, q Query) (Page, error) {
	if !pause(ctx, b.d) {
		return Page{}, ctx.Err()
	}
	return b.Log.Read(ctx, sub, q)
}

func TestSE40HeartbeatsBesideWhatIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLog(LogConfig{})
		typ := rawType(slowly{l, 14 * time.Second})
		typ.Check = func(ctx context.Context, _ Subscription) error {
			if !pause(ctx, 14*time.Second) {
				return ctx.Err()
			}
			return nil
		}
		typ.Visible = func(ctx context.Context, _ string) bool { return pause(ctx, 100*time.Millisecond) }
		s, m := rawServer(t, ServerConfig{Recheck: 14 * time.Second}, typ)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		last, worst := time.Now(), time.Duration(0)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
			p.next()
			worst = max(worst, time.Since(last))
			last = time.Now()
		}
		if worst > 20*time.Second {
			t.Errorf("silence of %v, want 20 s at most", worst)
		}
	})
}

func TestSlowMatchGetsOn(t *testing.T) {
	for _, open := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var slow atomic.Bool
			l := NewLog(LogConfig{Match: func(_ Subscription, v Event) bool {
				if slow.Load() {
					time.Sleep(2 * time.Millisecond)
				}
				return v.ID == "e9999"
			}})
			s, m := rawServer(t, ServerConfig{}, rawType(l))
			p := rawDial(t, t.Context(), s, m)
			from := l.cursor(0)
			if open {
				p.send(rawCall("s", methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, from)))
				want(t, p, noteActive)
			}
			slow.Store(true)
			rawAppend(t, l, 0, 10_000) // 20 s of work, more than a heartbeat
			if !open {
				p.send(rawCall("s", methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, from)))
				want(t, p, noteActive)
			}
			last := time.Now()
			for n := 0; p.next().Method != noteEvent; n++ {
				if d := time.Since(last); d > 20*time.Second || n > 5 {
					t.Fatalf("silence of %v, %d messages and no event", d, n)
				}
				last = time.Now()
			}
		})
	}
}

// Who reads slowly does not go on hearing what is forbidden by now.
func TestPageIsLeftWhenACheckIsDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLog(LogConfig{})
		typ := rawType(l)
		var gone atomic.Bool
		typ.Check = func(context.Context, Subscription) error {
			if gone.Load() {
				return ErrForbidden
			}
			return nil
		}
		s, m := rawServer(t, ServerConfig{}, typ)
		rawAppend(t, l, 0, 256)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, l.cursor(0))))
		line := func() rawMessage { // no more than it takes off the pipe
			var b strings.Builder
			for one := make([]byte, 1); ; b.Write(one) {
				if _, err := p.conn.Read(one); err != nil {
					t.Fatal(err)
				}
				if one[0] == '\n' {
					return rawDecode(t, b.String())
				}
			}
		}
		line()
		for i := range 4 { // the page stays whole over checks that are passed
			time.Sleep(40 * time.Second)
			if m := line(); m.Params.ID != fmt.Sprint("e", i) {
				t.Fatalf("got %s, want e%d", m.Text, i)
			}
		}
		gone.Store(true)
		n := 0
		for ; ; n++ {
			time.Sleep(20 * time.Second)
			if m := line(); m.Method == noteTerminated {
				break
			}
		}
		if n > 4 {
			t.Errorf("%d events came in %d s after the permission was gone", n, 20*n)
		}
	})
}

func TestPageIsLeftWhenTheServerCloses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := NewLog(LogConfig{})
		s, m := rawServer(t, ServerConfig{}, rawType(l))
		rawAppend(t, l, 0, 256)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, fmt.Sprintf(`"name":"alert","cursor":%q,`, l.cursor(0))))
		want(t, p, noteActive)
		want(t, p, noteEvent)
		synctest.Wait()
		go s.Close()
		synctest.Wait()
		n := 0
		for ; p.next().Method == noteEvent; n++ {
		}
		if n > 2 {
			t.Errorf("%d events came after Close", n)
		}
	})
}

// bottomless has always more.
type bottomless struct{ data []byte }

func (bottomless) Head(context.Context, Subscription) (Cursor, error) { return "0", nil }

func (b bottomless) Read(_ context.Context, _ Subscription, q Query) (Page, error) {
	n, _ := strconv.Atoi(string(q.After))
	p := Page{More: true}
	for range q.Limit {
		n++
		p.Cursor = Cursor(strconv.Itoa(n))
		p.Events = append(p.Events, Event{ID: fmt.Sprint("e", n), At: time.Now(), Data: b.data, Cursor: p.Cursor})
	}
	return p, nil
}

func (bottomless) Wait(ctx context.Context, _ Subscription, _ Cursor) error {
	<-ctx.Done()
	return ctx.Err()
}

// What a stream holds for a reader that has stopped is bounded.
func TestPageOfAStreamIsBounded(t *testing.T) {
	s, _ := rawServer(t, ServerConfig{}, Type{Name: "alert", Backend: bottomless{[]byte(`{"x":"` + strings.Repeat("y", 16<<10) + `"}`)}})
	o := s.offer("alert")
	d := &delivery{s: s, o: o, st: &stream{sub: Subscription{Name: "alert", Arguments: []byte("{}")}}, at: "0"}
	if err := d.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, v := range d.page.events {
		size += len(v.data)
	}
	if size > 256<<10 || len(d.page.events) < 10 || !d.page.more || d.page.next != d.page.events[len(d.page.events)-1].cursor {
		t.Errorf("a page of %d bytes in %d events, more %v, next %s", size, len(d.page.events), d.page.more, d.page.next)
	}
}

func TestVisiblePanicIsAHiccup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		typ := rawType(rawLog(LogConfig{}))
		var n atomic.Int32
		typ.Visible = func(context.Context, string) bool {
			if n.Add(1) == 2 {
				panic("once")
			}
			return true
		}
		s, m := rawServer(t, ServerConfig{}, typ)
		p := rawDial(t, t.Context(), s, m)
		p.send(rawCall("s", methodStream, `"name":"alert",`))
		want(t, p, noteActive)
		for errors := 0; errors == 0 || n.Load() < 4; {
			switch m := p.next(); m.Method {
			case noteError:
				errors++
			case noteHeartbeat:
			default:
				t.Fatalf("got %s, want the stream to go on", m.Text)
			}
		}
	})
}
