package mcpsource

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// keyOf is the key of a subscription, which its cursor is kept under: one for
// each server, name and arguments. Arguments that make it longer than a key may
// be, or have characters that it must not have, stand as their hash; the server
// has its colons escaped, so that no two subscriptions share a key.
func keyOf(server, name string, arguments []byte) string {
	head := "mcp:" + escape(server) + ":" + name + ":"
	key := head + string(arguments)
	if _, err := (attend.Event{ID: "x", Name: "x", Source: key}).Clean(); err != nil {
		return head + hashed(string(arguments))
	}
	return key
}

func escape(server string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(server)
}

// hashed stands for a text that can't be kept.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}
