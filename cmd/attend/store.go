package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/stores/bolt"
	"github.com/attend-go/attend/stores/postgres"
	"github.com/attend-go/attend/stores/redis"
	"github.com/attend-go/attend/stores/sqlite"
)

// storeForms says what --store takes.
const storeForms = "memory, sqlite:FILE, bolt:FILE, postgres://… or redis://…"

// A replay's tables and keys lie beside those of other uses.
const (
	replayTables = "attend_replay_"
	replayKeys   = "attend:{replay}:"
)

// errStoreName has no part of what it is about: a URL may hold a password.
var errStoreName = errors.New("want " + storeForms)

// checkStore says what is wrong with a store's name before anything is opened.
func checkStore(name string) error {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "memory":
		if rest == "" {
			return nil
		}
	case "sqlite", "bolt":
		if rest != "" {
			return nil
		}
	case "postgres", "postgresql", "redis", "rediss":
		if u, err := url.Parse(name); err == nil && u.Host != "" {
			return nil
		}
	}
	return fmt.Errorf("--store: %w", errStoreName)
}

// openStore opens the store that --store names, and makes it where there is
// none. A replay gives what it always gives only in one that is empty.
func openStore(ctx context.Context, name string, log *slog.Logger) (attend.ScopeStore, error) {
	s, err := storeOf(ctx, name, log)
	if err != nil {
		return nil, err
	}
	if err := checkEmpty(ctx, s); err != nil {
		closeStore(s)
		return nil, err
	}
	return s, nil
}

func storeOf(ctx context.Context, name string, log *slog.Logger) (attend.ScopeStore, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case "sqlite":
		return sqlite.Open(ctx, rest, sqlite.Config{})
	case "bolt":
		return bolt.Open(ctx, rest, bolt.Config{})
	case "postgres", "postgresql":
		c := postgres.Config{Prefix: replayTables, Logger: log}
		if err := postgres.MigrateURL(ctx, name, c); err != nil {
			return nil, err
		}
		return postgres.Open(ctx, name, c)
	case "redis", "rediss":
		return redis.Open(ctx, name, redis.Config{Prefix: replayKeys, Logger: log})
	default:
		// Nobody reads the log afterwards.
		return memory.NewWith(memory.Options{Retain: attend.Retain{Count: 1, Verdicts: 1}}), nil
	}
}

// checkEmpty refuses a store that holds rows or scopes: each scope that is not
// new is due some day.
func checkEmpty(ctx context.Context, s attend.ScopeStore) error {
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return err
	}
	taken := b.Newest > 0
	if !taken {
		for _, err := range s.Due(ctx, time.UnixMilli(1<<50)) {
			if err != nil {
				return err
			}
			taken = true
			break
		}
	}
	if taken {
		return errors.New("the store of --store is not empty; a replay wants one of its own")
	}
	return nil
}

func closeStore(s attend.ScopeStore) error {
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
