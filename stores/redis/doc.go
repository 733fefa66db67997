// Package redis keeps scopes, decisions and events in Redis 6.2 or later, or in
// what speaks its protocol, for any number of processes at once. A store is as
// durable as the server's settings; [Open] says in its log line what that is.
//
// It uses [github.com/redis/rueidis], which pipelines what many goroutines send
// and never repeats a command that may have been run, unless it only reads.
//
// # What is stored
//
// One script commits a group of writes: it checks all of them and then writes
// those that are at their version, so that each is whole. Every key begins with
// the prefix of [Config]:
//
//	head, events:head  hash: schema, epoch, newest position, what was trimmed
//	s:SCOPE            hash: version and length of the tail, snapshot, an input a field
//	due                sorted set: scopes by due time
//	log:TYPE           stream of each row type, with positions as ids
//	id:TYPE            hash: the newest position of an id
//	ix:TYPE:SCOPE      list: positions of the rows of a scope and of all below it
//	events             stream of all events
//	ex:SCOPE, ei:SCOPE list: positions of a scope's events; hash: their ids
//
// A row is in the list of each level of its scope, the first eight of them:
// a/b/c costs it three entries of some five bytes. A reader of a prefix reads
// the list of its level, and leaves out what the prefix does not cover, such as
// a:x where it is a/. All other reads cost what they find.
//
// # The server
//
//   - On a cluster all keys of a store live in one slot, so on one node. That is
//     what the braces in a prefix are for; they are asked for on a single server
//     too, so that its data can move to a cluster one day. Several stores share
//     the load of several nodes.
//   - Eviction of any key must be off: noeviction, or a volatile policy, since no
//     key here ever expires. A server that is over its maxmemory refuses a commit
//     as a whole; reading, forgetting, removing and trimming go on.
//   - appendonly yes and appendfsync always keep every commit that was answered.
//     With everysec the server may lose about a second when its machine dies,
//     with RDB files alone what came since the last one. Replicas lag: a failover
//     can lose commits under any setting, and min-replicas-to-write bounds it.
//   - What may have been lost is noticed. A log belongs to one life of a server's
//     data: when the server was restarted, or was a replica in between, the next
//     call draws a new epoch, so that every cursor from before is truncated and
//     its reader begins again. Only where appendfsync was and is always and the
//     server has loaded its own files does the epoch stay. It also changes where
//     CONFIG is forbidden, since the setting isn't known then. A setting that is
//     changed while the server runs is seen by the next Open.
//   - Versions of scopes are random, so that none from a lost second comes again.
//     Positions jump ahead in each new life for the same reason, to one made of
//     the server's time.
//   - Scripts are sent again to a server that lost them; Functions are not used.
//
// A user needs these rights, here for the prefix attend:{app}: :
//
//	ACL SETUSER attend on >SECRET resetchannels &attend:{app}:* ~attend:{app}:*
//	  +hget +hmget +hset +hdel +hlen +hexists +hgetall
//	  +zadd +zrem +zcard +zscore +zrank +zcount +zrange
//	  +xadd +xlen +xrange +xrevrange +xtrim +xinfo +rpush +llen +lindex +lrange +lpop
//	  +exists +unlink +evalsha +eval +info +time +publish +subscribe +ping +hello +auth
//
// and on a cluster +cluster. Open tries them, all but the last line's. Without
// publish, subscribe or the channel, waiting falls back to polling. With
// +config|get Open can tell how durable the server is, without it can't.
//
// Read config.go first, then store.go and commit.go with lua/commit.lua;
// log.go and trim.go, the decision log; life.go, what a restart means; wait.go.
package redis
