module github.com/attend-go/attend/core

go 1.26.0
