module github.com/attend-go/attend/server

go 1.26

require github.com/attend-go/attend/core v0.1.0
