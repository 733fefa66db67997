// Package redis keeps scopes, decisions and events in Redis 6.2 or later, or in
// what speaks its protocol, for any number of processes at once. A store is as
// durable as the server's settings; [Open] says in its log line what that is.
//
// It uses [github.com/redis/rueidis], which pipelines what many goroutines send
// and from [Open] never repeats a command that may have been run, unless that
// changes nothing more. [New] says what a client of the app's may do.
//
// # What is stored
//
// One script commits a group of writes: it checks all of them and then writes
// those that are at their version, so that each is whole. Every key begins with
// the prefix of [Config]:
//
//	head, events:head  hash: schema, epoch, newest position, what was trimmed
//	mark, events:mark  string: which server's own file the data is from
//	s:SCOPE            hash: version and length of the tail, snapshot, an input a field
//	due                sorted set: scopes by due time
//	log:TYPE           stream of each row type, with positions as ids
//	id:TYPE            hash: the newest position of an id
//	ix:TYPE:SCOPE      list: positions of the rows of a scope and of all below it
//	events             stream of all events
//	ex:SCOPE, ei:SCOPE list: positions of a scope's events; hash: their ids
//	did:CALL           string, for some seconds: the answer of a call of [New]'s
//
// A row is in the list of each level of its scope, the first eight of them:
// a/b/c costs it three entries of some five bytes. A reader of a prefix reads
// the list of its level, and leaves out what the prefix does not cover, such as
// a:x where it is a/. All other reads cost what they find. The prefixes / and :
// alone have no list: their readers go through all rows.
//
// # The server
//
//   - On a cluster all keys of a store live in one slot, so on one node. That is
//     what the braces in a prefix are for; they are asked for on a single server
//     too, so that its data can move to a cluster one day. Several stores share
//     the load of several nodes.
//   - Eviction of any key must be off: noeviction, or a volatile policy, since no
//     key here that matters ever expires. A server that is over its maxmemory
//     refuses a commit as a whole; reading, forgetting, removing and trimming go
//     on.
//   - appendonly yes and appendfsync always keep every commit that was answered.
//     With everysec the server may lose about a second when its machine dies,
//     with RDB files alone what came since the last one. Replicas lag: a failover
//     can lose commits under any setting, and min-replicas-to-write bounds it.
//   - What may have been lost is noticed. A log belongs to one life of a server's
//     data: when the server was restarted, or other data came over it, the next
//     call draws a new epoch, so that every cursor from before is truncated and
//     its reader begins again. The epoch stays over a restart only by proof that
//     nothing is lost: appendfsync was and is always, no-appendfsync-on-rewrite is
//     no, and the server has read in its own append-only file what it tells no
//     replica, a mark that each commit of rows renews. What a server says of
//     itself is no proof: a replica that lagged, and that was restarted alone,
//     looks like one that never was a replica.
//   - So readers begin again, though nothing was lost, where the file was rewritten
//     and no row came since, and where CONFIG or redis.set_repl is forbidden.
//   - Two things leave no trace in the data. An older append-only file that is put
//     back, a backup, proves what it did when it was new. And so does the file from
//     before, if appendonly was switched off and the server dies, or dies before the
//     new file is complete. Before others call the log again, tell it:
//     HDEL head life, and HDEL events:head life, each with the prefix. A setting
//     that is changed while the server runs is seen by the next Open.
//   - Versions of scopes are random, so that none from a lost second comes again.
//     Positions jump ahead in each new life for the same reason, to one made of
//     the server's time.
//   - Scripts are sent again to a server that lost them; Functions are not used.
//
// A user needs these rights, here for the prefix attend:{app}: :
//
//	ACL SETUSER attend on >SECRET resetchannels &attend:{app}:* ~attend:{app}:*
//	  +get +set +setrange +object +hget +hmget +hset +hdel +hlen +hexists +hgetall
//	  +zadd +zrem +zcard +zscore +zrank +zcount +zrange
//	  +xadd +xlen +xrange +xrevrange +xtrim +xinfo +rpush +llen +lindex +lrange +lpop
//	  +exists +unlink +info +time
//	  +evalsha +eval +publish +subscribe +ping +hello +auth
//
// and on a cluster +cluster. Open tries them, all but the last line's. Without
// publish, subscribe or the channel, waiting falls back to polling. With
// +config|get Open can tell how durable the server is, without it can't.
//
// Read config.go first, then store.go and commit.go with lua/commit.lua;
// log.go and trim.go, the decision log; life.go, what a restart means; wait.go.
package redis
