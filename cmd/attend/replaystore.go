package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/postgres"
)

// A replay's tables and keys lie beside those of other uses.
const (
	replayTables = "attend_replay_"
	replayKeys   = "attend:{replay}:"
)

// openEmpty opens the store of a replay, and makes it where there is none. A replay
// gives what it always gives only in one that is empty.
func openEmpty(ctx context.Context, p place, log *slog.Logger) (attend.ScopeStore, error) {
	p.log = log
	switch p.kind {
	case kindMemory:
		p.retain = attend.Retain{Count: 1, Verdicts: 1} // nobody reads the log afterwards
	case kindRedis:
		p.prefix = replayKeys
	case kindPostgres:
		p.prefix = replayTables
		if err := postgres.MigrateURL(ctx, p.at, p.postgres()); err != nil {
			return nil, err
		}
	}
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkEmpty(ctx, s); err != nil {
		closeStore(s)
		return nil, err
	}
	return s, nil
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
