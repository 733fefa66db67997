module github.com/attend-go/attend/examples/customstore

go 1.26
