-- Deletes the rows of some streams up to a position, and what points to them.
-- It begins with a write that frees memory, so that a full server lets it.
--
-- KEYS: head, the streams, the ids, then the lists, and the mark.
-- ARGV: schema, position, number of streams, of ids, of marks; then a name and
-- a position for each mark; then which ids, id and position for each row.
-- Answers: OK.
local m, no = head(KEYS[1], ARGV[1])
if no then return no end
local cut, streams, ids, marks = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
for i = 1, streams do
  if not sound('XLEN', KEYS[1 + i]) then return {'CORRUPT', 'log'} end
end
for i = 1, ids do
  if not sound('HLEN', KEYS[1 + streams + i]) then return {'CORRUPT', 'ids'} end
end
for i = 2 + streams + ids, #KEYS - 1 do
  if not sound('LLEN', KEYS[i]) then return {'CORRUPT', 'list'} end
end

for i = 1, streams do redis.call('XTRIM', KEYS[1 + i], 'MINID', text(cut + 1)) end
for a = 6, 5 + 2 * marks, 2 do
  local old = tonumber(redis.call('HGET', KEYS[1], ARGV[a]) or '0')
  if tonumber(ARGV[a + 1]) > old then redis.call('HSET', KEYS[1], ARGV[a], ARGV[a + 1]) end
end
for a = 6 + 2 * marks, #ARGV, 3 do
  local k = KEYS[1 + streams + tonumber(ARGV[a])]
  if redis.call('HGET', k, ARGV[a + 1]) == ARGV[a + 2] then redis.call('HDEL', k, ARGV[a + 1]) end
end
for i = 2 + streams + ids, #KEYS - 1 do
  while true do
    local old = 0
    local first = redis.call('LRANGE', KEYS[i], 0, 99)
    while old < #first and tonumber(first[old + 1]) <= cut do old = old + 1 end
    if old > 0 then redis.call('LPOP', KEYS[i], old) end
    if old < 100 then break end
  end
end
return {'OK'}
