-- Forgets a scope.
--
-- KEYS: head, due, its hash, where to note that it was done. ARGV: schema, its
-- name, for how many milliseconds that is noted (0: it isn't).
local no = foreign(KEYS[1], ARGV[1])
if no then return no end
if ARGV[3] ~= '0' and redis.call('EXISTS', KEYS[4]) == 1 then return {'OK'} end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('UNLINK', KEYS[3])
if ARGV[3] ~= '0' then redis.call('SET', KEYS[4], '1', 'PX', ARGV[3]) end
return {'OK'}
