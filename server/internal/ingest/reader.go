package ingest

import (
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/server/access"
)

// A reader reads items for somebody: what they say, and whether it is theirs to
// say.
type reader struct {
	who   *access.Principal
	form  format
	item  item
	known string // the last scope that was theirs
}

// read reads an item. A nil reason: the engine may be asked. Otherwise scope is
// the item's, if it names one that could be.
func (r *reader) read(b []byte) (scope attend.Scope, why *reason) {
	it := &r.item
	why = r.form.read(b, it)
	if why == nil && string(it.scope) == r.known && r.known != "" {
		return "", nil
	}
	s := attend.Scope(it.scope)
	err := s.Check()
	switch {
	case err != nil && why == nil:
		return "", because(err, nil)
	case err != nil:
		return "", why
	case !r.who.MayIngest(s):
		return s, foreign
	case why != nil:
		return s, why
	default:
		r.known = string(s)
		return "", nil
	}
}
