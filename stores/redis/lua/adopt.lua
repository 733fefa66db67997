-- Makes the head of a log, or binds it to the life that the server has begun.
-- The epoch is drawn anew unless there is proof that nothing was lost: the
-- server synced before each answer when it was last looked at and does so now,
-- and it has read the mark of that life in its own file. Whatever was lost, no
-- position is given twice: each life begins at one made of the time in
-- microseconds, and no log gets that many rows.
--
-- KEYS: head, the streams, the mark.
-- ARGV: schema, the life that the caller looked at, a new epoch, always if the
-- server syncs before each answer.
-- Answers: OK, epoch, and the schema's birth, a new epoch, or what else it did.
local now, sync = life(), ARGV[4]
if now ~= ARGV[2] then return {'LIFE'} end
local m = redis.call('HMGET', KEYS[1], 'schema', 'life', 'epoch', 'newest', 'base', 'sync')
if m[1] and m[1] ~= ARGV[1] then return {'SCHEMA', m[1]} end
if m[1] and not (m[3] and tonumber(m[4]) and tonumber(m[5])) then return {'CORRUPT', 'head'} end
local proven, same = raw(), false
if proven then
  local run = redis.call('GET', mark)
  same = m[2] == now and run == signature(now)
  proven = m[2] and run == signature(m[2]) and m[6] == 'always'
end
if same and m[6] == sync then return {'OK', m[3], 'same'} end

-- A write that needs no memory, so that a full server lets the next one pass.
redis.call('UNLINK', mark)
if not sign(now) then sync = 'unknown' end
if not raw() then return {'ENCODING'} end
if not m[1] then
  local top = 0
  for i = 2, #KEYS - 1 do
    if redis.call('EXISTS', KEYS[i]) == 1 then
      local info = redis.call('XINFO', 'STREAM', KEYS[i])
      for j = 1, #info, 2 do
        if info[j] == 'last-generated-id' then top = math.max(top, tonumber(string.match(info[j + 1], '^%d+'))) end
      end
    end
  end
  redis.call('HSET', KEYS[1], 'schema', ARGV[1], 'life', now, 'epoch', ARGV[3],
    'newest', text(top), 'base', '0', 'sync', sync)
  return {'OK', ARGV[3], 'born'}
end
if same then
  redis.call('HSET', KEYS[1], 'sync', sync)
  return {'OK', m[3], 'same'}
end
local t = redis.call('TIME')
local micros = (tonumber(t[1]) - 1577836800) * 1000000 + tonumber(t[2]) -- since 2020
local base = math.max(tonumber(m[4]) + 1000000, tonumber(m[5]) + 1000000, micros)
local epoch, what = ARGV[3], 'lost'
if proven and sync == 'always' then epoch, what = m[3], 'kept' end
redis.call('HSET', KEYS[1], 'life', now, 'epoch', epoch, 'base', text(base), 'sync', sync)
return {'OK', epoch, what}
