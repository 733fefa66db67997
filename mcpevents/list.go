package mcpevents

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
)

// pagePrefix begins the cursors of the catalogue's pages.
const pagePrefix = "types:"

// list answers one events/list: what the principal may know of, by name.
// Carried tells which modes the transport that it came by can carry.
func (s *Server) list(ctx context.Context, p *listQuery, carried func(Mode) bool) (*listResult, error) {
	after := ""
	if p != nil && !absent(p.Cursor) {
		text, isString := stringOf(p.Cursor)
		raw, err := base64.RawURLEncoding.DecodeString(text)
		name, ok := strings.CutPrefix(string(raw), pagePrefix)
		if !isString || err != nil || !ok && text != "" {
			return nil, invalid("/cursor", "is no cursor of this list")
		}
		after = name
	}
	principal, err := s.principal(ctx)
	if err != nil {
		return nil, err
	}
	out := &listResult{ResultType: complete, Events: []Descriptor{}, TTL: s.config.ListTTL.Milliseconds(), CacheScope: "private"}
	for _, name := range s.names() {
		if name <= after {
			continue
		}
		o := s.offer(name)
		if o == nil {
			continue
		}
		if ok, err := s.visible(ctx, o, principal); err != nil || !ok {
			continue
		}
		modes := slices.DeleteFunc(slices.Clone(o.modes), func(m Mode) bool { return !carried(m) })
		if len(modes) == 0 {
			continue
		}
		if len(out.Events) == s.config.PageSize {
			last := out.Events[len(out.Events)-1].Name
			out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(pagePrefix + last))
			break
		}
		out.Events = append(out.Events, o.descriptor(modes))
	}
	return out, nil
}
