module github.com/attend-go/attend/cmd/attend

go 1.26
