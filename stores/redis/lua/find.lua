-- Finds the newest row of an id.
--
-- KEYS: head, the ids of a type, its log, the mark. ARGV: schema, id.
-- Answers: OK, epoch, and where there is one: position, scope, id, time, body.
local m, no = head(KEYS[1], ARGV[1])
if no then return no end
local p = redis.call('HGET', KEYS[2], ARGV[2])
if not p then return {'OK', m[3]} end
local row = redis.call('XRANGE', KEYS[3], p, p)[1]
if not row then return {'CORRUPT', 'ids'} end
if not ours(row) then return {'CORRUPT', 'log'} end
local v = row[2]
return {'OK', m[3], p, v[2], v[4], v[6], v[8]}
