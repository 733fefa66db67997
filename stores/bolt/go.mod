module github.com/attend-go/attend/stores/bolt

go 1.26.0

require (
	github.com/attend-go/attend/conformance v0.1.0
	github.com/attend-go/attend/core v0.1.0
	github.com/attend-go/attend/stores/journal v0.1.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
)
