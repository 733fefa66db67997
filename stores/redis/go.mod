module github.com/attend-go/attend/stores/redis

go 1.26.0

require (
	github.com/attend-go/attend/conformance v0.1.0
	github.com/attend-go/attend/core v0.1.0
	github.com/redis/rueidis v1.0.79
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
