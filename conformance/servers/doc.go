// Package servers runs private PostgreSQL and Redis servers for the tests of
// store adapters, here and elsewhere.
//
// A test that only needs a database asks for the one of its test process:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//
//	func TestStore(t *testing.T) {
//		url := servers.Postgres(t).URL()
//		…
//	}
//
// It is skipped where PostgreSQL is not installed, and fails there if CI is
// set. ATTEND_TEST_POSTGRES and ATTEND_TEST_REDIS name a server to use instead,
// by URL; no other server is ever touched. A test that kills its server starts
// one of its own, with [StartPostgres] or [StartRedis].
//
// ATTEND_POSTGRES_BIN and ATTEND_REDIS_BIN name the folder with the programs to
// run, so that the same tests run on another release: that of postgres and
// initdb, and that of redis-server. Nothing else is looked at then, and a folder
// that lacks one of them is an error, which skips no test.
//
// A server listens on loopback, on a free port, behind a random password, and
// keeps everything in one folder. Where the tests run as root it runs as an
// unprivileged user. It never outlives the test process, however that ends: a
// small shell watches for it, ends the server and removes the folder.
//
// Read server.go first; postgres.go and redis.go are what differs.
package servers
