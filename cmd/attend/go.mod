module github.com/attend-go/attend/cmd/attend

go 1.26

require (
	github.com/attend-go/attend/conformance v0.1.0
	github.com/attend-go/attend/core v0.1.0
	github.com/attend-go/attend/mcpevents v0.1.0
	github.com/attend-go/attend/mcpsource v0.1.0
	github.com/attend-go/attend/stores/bolt v0.1.0
	github.com/attend-go/attend/stores/postgres v0.1.0
	github.com/attend-go/attend/stores/redis v0.1.0
	github.com/attend-go/attend/stores/sqlite v0.1.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/spf13/cobra v1.10.2
)

require github.com/rogpeppe/go-internal v1.16.0

require (
	github.com/attend-go/attend/stores/journal v0.1.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mattn/go-sqlite3 v1.14.53 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	golang.org/x/tools v0.48.0 // indirect
)
