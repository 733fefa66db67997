package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	attend "github.com/attend-go/attend/core"
)

// schema is the version of the layout in doc.go. A store of a newer one is left
// alone. There is no older one; the first change adds its migration here.
const schema = "1"

// A log belongs to one life of a server's data, which its head names. A script
// that finds another one does nothing: acknowledged rows may be lost, and their
// positions must not be given to others that a reader would take for read.
// adopt then binds the head to the new life. Whoever calls it first decides.
//
// A life is one process that held the data all the time. The epoch goes on in
// the next one only by proof, which is the mark in lua/common.lua: what a server
// says of itself is none, since one that was a replica, that lagged, and that was
// restarted on its own file looks like one that never was.
func (l *link) adopt(ctx context.Context) error {
	for range 3 {
		s, err := inspect(ctx, l.c, l.head)
		if err != nil {
			return err
		}
		out, err := l.bind(ctx, s)
		if err != nil {
			return err
		}
		switch out[0] {
		case "LIFE":
			continue // the server we looked at is not the one any more
		case "SCHEMA":
			return l.foreign(out[1])
		}
		if err := l.refused(out); err != nil {
			return err
		}
		if out[2] == "lost" {
			loses, _ := s.loses()
			l.log.Warn("redis: the server was restarted or replaced: the log has a new epoch, and its readers begin again", "log", l.head, "crashLoses", loses)
		}
		return nil
	}
	return errRestless
}

func (l *link) bind(ctx context.Context, s server) ([]string, error) {
	return adoptScript.run(ctx, l.c, call{
		keys: append(append([]string{l.head}, l.streams...), mark(l.head)),
		args: []string{schema, s.life, rand.Text(), s.sync},
	})
}

// foreign is the error for a schema that is not ours.
func (l *link) foreign(stored string) error {
	n, err := strconv.Atoi(stored)
	ours, _ := strconv.Atoi(schema)
	if err != nil || n < ours {
		return fmt.Errorf("%w: the head under the prefix %s has no schema that there ever was", attend.ErrCorrupt, l.keys)
	}
	return fmt.Errorf("%w: the prefix %s has schema %d, this release knows %d", attend.ErrNewer, l.keys, n, ours)
}
