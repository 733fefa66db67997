module github.com/attend-go/attend/conformance

go 1.26.0

require (
	github.com/attend-go/attend/core v0.1.0
	github.com/google/go-cmp v0.7.0
)
