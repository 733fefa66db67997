-- Forgets a scope. KEYS: due, its hash. ARGV: its name.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('UNLINK', KEYS[2])
return {'OK'}
