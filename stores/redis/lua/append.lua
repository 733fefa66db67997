-- Appends events of one scope, all or none, without those whose id is kept.
--
-- KEYS: head, events, the scope's list, the scope's ids, the mark.
-- ARGV: schema, scope, time, message, then id and body of each.
local m, no = head(KEYS[1], ARGV[1])
if no then return no end
if not sound('XLEN', KEYS[2]) then return {'CORRUPT', 'log'} end
if not sound('LLEN', KEYS[3]) then return {'CORRUPT', 'list'} end
if not sound('HLEN', KEYS[4]) then return {'CORRUPT', 'ids'} end
local new, seen = {}, {}
for a = 5, #ARGV, 2 do
  local id = ARGV[a]
  if not seen[id] and redis.call('HEXISTS', KEYS[4], id) == 0 then new[#new + 1] = a end
  seen[id] = true
end
if #new == 0 then return {'OK', ''} end
local position = math.max(tonumber(m[4]), tonumber(m[5]))
if position + #new > full then return {'FULL'} end

-- From here on nothing fails, but the first write where memory is full.
for _, a in ipairs(new) do
  position = position + 1
  local p = text(position)
  redis.call('XADD', KEYS[2], p .. '-0', 's', ARGV[2], 'i', ARGV[a], 'a', ARGV[3], 'b', ARGV[a + 1])
  redis.call('RPUSH', KEYS[3], p)
  redis.call('HSET', KEYS[4], ARGV[a], p)
end
redis.call('HSET', KEYS[1], 'newest', text(position))
resign(m)
redis.pcall('PUBLISH', KEYS[1], text(m[4]) .. ' ' .. text(position) .. ' ' .. ARGV[4])
return {'OK', text(position)}
