module github.com/attend-go/attend/examples

go 1.26
