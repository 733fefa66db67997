module github.com/attend-go/attend/stores/journal

go 1.26.0

require (
	github.com/attend-go/attend/conformance v0.1.0
	github.com/attend-go/attend/core v0.1.0
)

require github.com/google/go-cmp v0.7.0 // indirect
