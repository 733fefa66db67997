package vectors

import "embed"

// FS holds the folders of vectors. It is read-only and safe for concurrent use.
//
//go:embed */*
var FS embed.FS
