module github.com/attend-go/attend/conformance

go 1.26
