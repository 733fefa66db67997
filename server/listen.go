package server

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Listen says where [Server.Serve] listens and how it ends. The zero Listen is a
// free port of 127.0.0.1.
type Listen struct {
	// Host and Port are the TCP address. Empty: 127.0.0.1. Port 0: a free one.
	Host string
	Port int
	// Socket is the path of a unix socket, in place of an address. It is made
	// with mode 0600 and removed in the end. One that a dead process has left
	// behind is replaced; one that a process listens on is not, nor is any file
	// that is no socket. Empty: there is none.
	Socket string
	// Listener is a listener that is there already, in place of both. Serve
	// closes it. Nil: there is none.
	Listener net.Listener
	// Insecure allows an address that is not the loopback's although nobody has
	// to say who he is.
	Insecure bool

	// Ready is told the base address once the server is ready: the store has
	// answered, and the engine runs. Of a socket it is "unix:" and its path. Serve
	// waits for it to return. Nil: nobody is told.
	Ready func(url string)

	// Notice is how long readiness says 503 before requests are refused, so that
	// whoever hands out requests can hear of it. Default 0.
	Notice time.Duration
	// Drain is how long requests and the engine may take to end, Notice
	// included; the engine has a second more. One with a ShutdownGrace that is
	// longer may be cut off. Default 10 s.
	Drain time.Duration
	// HeaderTimeout is how long a client may take for a request's header, and
	// IdleTimeout how long a connection stays without a request. Default 10 s and
	// 2 min.
	HeaderTimeout, IdleTimeout time.Duration
}

// withDefaults checks l and fills in what it leaves out.
func (l Listen) withDefaults() (Listen, error) {
	for _, d := range []struct {
		name string
		to   *time.Duration
		def  time.Duration
	}{
		{"Notice", &l.Notice, 0},
		{"Drain", &l.Drain, 10 * time.Second},
		{"HeaderTimeout", &l.HeaderTimeout, 10 * time.Second},
		{"IdleTimeout", &l.IdleTimeout, 2 * time.Minute},
	} {
		if *d.to < 0 || *d.to > longest {
			return l, &attend.InvalidError{Field: d.name, Want: "a duration of at most 1 hour"}
		}
		if *d.to == 0 {
			*d.to = d.def
		}
	}
	if l.Port < 0 || l.Port > 65535 {
		return l, &attend.InvalidError{Field: "Port", Want: "a number from 0 to 65535"}
	}
	if l.Host == "" {
		l.Host = "127.0.0.1"
	}
	return l, nil
}

// open starts to listen. Close of what it returns removes a socket.
func (l *Listen) open(safe bool) (net.Listener, error) {
	ln := l.Listener
	switch {
	case ln != nil:
	case l.Socket != "":
		return listenSocket(l.Socket)
	default:
		addr := net.JoinHostPort(strings.Trim(l.Host, "[]"), strconv.Itoa(l.Port))
		var err error
		if ln, err = net.Listen("tcp", addr); err != nil {
			return nil, fmt.Errorf("server: listen: %w", err)
		}
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !safe && !l.Insecure {
		_ = ln.Close() // nobody has connected
		return nil, &attend.InvalidError{Field: "Host", Want: "a loopback address, as nobody has to say who he is; or a token, or Insecure"}
	}
	return ln, nil
}

// address is the base address of a listener, for those on this machine.
func address(ln net.Listener) string {
	switch a := ln.Addr().(type) {
	case *net.TCPAddr:
		host := a.IP.String()
		if a.IP.IsUnspecified() {
			host = "localhost"
		}
		return "http://" + net.JoinHostPort(host, strconv.Itoa(a.Port))
	case *net.UnixAddr:
		return "unix:" + a.Name
	default:
		return a.Network() + ":" + a.String()
	}
}
