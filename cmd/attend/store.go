package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/stores/bolt"
	"github.com/attend-go/attend/stores/postgres"
	"github.com/attend-go/attend/stores/redis"
)

// storeForms says what --store takes.
const storeForms = "memory, sqlite:FILE, bolt:FILE, postgres://… or redis://…"

// The kinds of stores.
const (
	kindMemory   = "memory"
	kindSQLite   = "sqlite"
	kindBolt     = "bolt"
	kindPostgres = "postgres"
	kindRedis    = "redis"
)

// What begins the names of tables and of keys where nothing is set.
const (
	serveTables = "attend_"
	serveKeys   = "attend:{app}:"
)

// storeNames are the kinds of stores of this binary.
func storeNames() []string {
	if noSQLite != "" {
		return []string{kindMemory, kindBolt, kindPostgres, kindRedis}
	}
	return []string{kindMemory, kindSQLite, kindBolt, kindPostgres, kindRedis}
}

// A place is where a store is, and how it is opened.
type place struct {
	kind   string
	at     string // file or URL
	prefix string // of tables or keys
	listen string // a URL for notifications; empty: there are none
	retain attend.Retain
	log    *slog.Logger
}

// These have no part of what they are about: a URL may hold a password.
var errStoreName = errors.New("want " + storeForms)

var errStoreURL = errors.New("want a URL; in it the special characters of user and password are %-encoded")

// placeOf reads the name of a store, before anything is opened.
func placeOf(name string) (place, error) {
	kind, rest, more := strings.Cut(name, ":")
	address := name
	switch kind {
	case kindMemory:
		if !more {
			return place{kind: kind}, nil
		}
	case kindSQLite, kindBolt:
		if kind == kindSQLite && noSQLite != "" {
			return place{}, errors.New(noSQLite)
		}
		if rest != "" {
			return place{kind: kind, at: rest}, nil
		}
	case kindPostgres, kindRedis:
		if !strings.HasPrefix(rest, "//") { // postgres:postgres://…
			address = rest
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil && strings.Contains(address, "://"):
		return place{}, errStoreURL
	case err != nil:
		return place{}, errStoreName
	}
	of := kindOfURL(u)
	if of == "" || address != name && of != kind || address == name && u.Scheme == "unix" {
		return place{}, errStoreName
	}
	return place{kind: of, at: address}, nil
}

// placeWith is placeOf with the prefix that is set, or what stands for none. name
// is that of the setting that an error is about.
func placeWith(store, prefix string) (p place, name string, err error) {
	if p, err = placeOf(store); err != nil {
		return p, "store", err
	}
	switch p.kind {
	case kindPostgres:
		p.prefix = cmp.Or(prefix, serveTables)
	case kindRedis:
		p.prefix = cmp.Or(prefix, serveKeys)
	default:
		if prefix != "" {
			return p, "store-prefix", errors.New("only PostgreSQL and Redis have one")
		}
	}
	return p, "", nil
}

// kindOfURL is the kind of store that a URL leads to, empty where it leads to
// none.
func kindOfURL(u *url.URL) string {
	switch u.Scheme {
	case "postgres", "postgresql":
		if u.Host != "" || u.Path != "" {
			return kindPostgres
		}
	case "redis", "rediss":
		if u.Host != "" {
			return kindRedis
		}
	case "unix":
		if u.Path != "" {
			return kindRedis
		}
	}
	return ""
}

// check has the adapter look at what it is told, before anything is opened: with
// a context that has ended it comes no further. name is that of the setting that
// is at fault.
func (p place) check() (name string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p.kind != kindPostgres && p.kind != kindRedis {
		return "", nil
	}
	s, err := p.open(ctx)
	if err == nil {
		return "", closeStore(s)
	}
	e, ok := errors.AsType[*attend.InvalidError](err)
	if !ok {
		return "", nil
	}
	name = "store"
	switch e.Field {
	case "Prefix":
		name = "store-prefix"
	case "Listen":
		name = "store-listen"
	}
	return name, errors.New("want " + e.Want)
}

// open opens the store, and makes it where there is none, but for PostgreSQL's
// tables.
func (p place) open(ctx context.Context) (attend.ScopeStore, error) {
	switch p.kind {
	case kindSQLite:
		return openSQLite(ctx, p.at, p.retain)
	case kindBolt:
		return bolt.Open(ctx, p.at, bolt.Config{Retain: p.retain})
	case kindPostgres:
		return postgres.Open(ctx, p.at, p.postgres())
	case kindRedis:
		return redis.Open(ctx, p.at, redis.Config{Prefix: p.prefix, Retain: p.retain, Logger: p.log})
	}
	return memory.NewWith(memory.Options{Retain: p.retain}), nil
}

func (p place) postgres() postgres.Config {
	return postgres.Config{Prefix: p.prefix, Listen: p.listen, Retain: p.retain, Logger: p.log}
}

// shownURL is the name of a store without the password in it, and any other text
// as it is.
func shownURL(name string) string {
	if !strings.Contains(name, "://") {
		return name
	}
	kind, rest, _ := strings.Cut(name, ":")
	if strings.HasPrefix(rest, "//") {
		kind, rest = "", name
	} else {
		kind += ":"
	}
	u, err := url.Parse(rest)
	if err != nil {
		return "set" // somewhere in it is a password
	}
	q := u.Query()
	for k := range q {
		if strings.Contains(k, "password") {
			q.Set(k, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	if _, ok := u.User.Password(); !ok {
		return kind + u.String()
	}
	return kind + u.Redacted()
}

func closeStore(s attend.ScopeStore) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
