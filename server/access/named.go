package access

import "slices"

// Named returns the principal that a name stands for: nil for an unknown or empty
// name, and for one of several tokens that do not allow the same, since nobody
// may get by a name what his own token does not allow.
func (t *Tokens) Named(name string) *Principal {
	var found *Principal
	for i := range t.known {
		p := t.known[i].principal
		switch {
		case name == "" || p.Name != name:
		case found == nil:
			found = p
		case !slices.Equal(found.Scopes, p.Scopes) || found.Ingest != p.Ingest || found.Read != p.Read:
			return nil
		}
	}
	return found
}
