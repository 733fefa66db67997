-- Applies a group of writes, each whole or not at all. A script is not rolled
-- back, so everything is read and checked before the first write; and the first
-- write is one that a server over its maxmemory refuses, unless all that the
-- group does is forget.
--
-- KEYS: head, due, the log of each type (3), the ids of each type (3), where to
-- note the answer, then a hash for each write, then the lists of scopes that
-- rows belong to, and the mark.
-- ARGV: schema, number of writes, length of a hash's prefix, message, for how
-- many milliseconds the answer is noted (0: it isn't); then for each write:
-- expected version or nothing, next version, due, and how many inputs follow, or
-- s for a snapshot, and these; then for each row: its write, type, scope, id,
-- time, body, and its lists.
-- A version has a colon behind it. Due is milliseconds, k to keep it, nothing
-- for never, or f to forget the scope.
local schema, n, prefix, message, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local fixed, call, find, sub, number = 9, redis.call, string.find, string.sub, tonumber

local no = foreign(KEYS[1], schema)
if no then return no end
if keep ~= '0' then
  local noted = call('GET', KEYS[9])
  if noted then return {'OK', string.match(noted, '^(%d*) (%d*)$')} end
end

local at, tail, answer, any = {}, {}, {}, false
local a, timed = 6, false
for i = 1, n do
  local expect, v = ARGV[a], call('HGET', KEYS[fixed + i], 'v')
  at[i], answer[i] = a, '0'
  if v then
    if expect ~= '' and find(v, expect, 1, true) == 1 then
      tail[i] = number(sub(v, #expect + 1))
      if not tail[i] then return {'CORRUPT', 'scope'} end
    end
  elseif expect == '' then
    tail[i] = 0
  end
  if tail[i] then
    answer[i], any = '1', true
    timed = timed or ARGV[a + 2] ~= 'k'
  end
  local m = ARGV[a + 3]
  a = a + 4 + (m == 's' and 1 or number(m))
end
if timed and not sound('ZCARD', KEYS[2]) then return {'CORRUPT', 'due'} end

local rows, position, m = {}, nil, nil
for r = a, #ARGV, 7 do
  if tail[tonumber(ARGV[r])] then rows[#rows + 1] = r end
end
if #rows > 0 then
  m, no = head(KEYS[1], schema)
  if no then return no end
  position = math.max(tonumber(m[4]), tonumber(m[5]))
  if position + #rows > full then return {'FULL'} end
  for _, r in ipairs(rows) do
    local t = tonumber(ARGV[r + 1])
    if not sound('XLEN', KEYS[2 + t]) then return {'CORRUPT', 'log'} end
    if not sound('HLEN', KEYS[5 + t]) then return {'CORRUPT', 'ids'} end
    for x in string.gmatch(ARGV[r + 6], '%d+') do
      if not sound('LLEN', KEYS[fixed + n + x]) then return {'CORRUPT', 'list'} end
    end
  end
end

-- From here on nothing fails.
local gone, due, never = {}, {}, {}
for i = 1, n do
  if tail[i] then
    local a, k, t = at[i], KEYS[fixed + i], tail[i]
    local expect, next, when, what = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
    if when == 'f' then
      gone[#gone + 1] = k
    elseif what == '1' then
      call('HSET', k, 'v', next .. t + 1, t + 1, ARGV[a + 4])
    elseif what == 's' then
      call('HSET', k, 'v', next .. 0, 's', ARGV[a + 4])
      for from = 1, t, 1000 do
        local old = {}
        for j = from, math.min(from + 999, t) do old[#old + 1] = j end
        call('HDEL', k, unpack(old))
      end
    else
      local count = tonumber(what)
      call('HSET', k, 'v', next .. t + count)
      for from = 1, count, 1000 do
        local new = {}
        for j = from, math.min(from + 999, count) do
          new[#new + 1] = t + j
          new[#new + 1] = ARGV[a + 3 + j]
        end
        call('HSET', k, unpack(new))
      end
    end
    if when == 'f' or when == '' then
      if expect ~= '' then never[#never + 1] = sub(k, prefix + 1) end
    elseif when ~= 'k' then
      due[#due + 1] = when
      due[#due + 1] = sub(k, prefix + 1)
    end
  end
end
for from = 1, #due, 2000 do call('ZADD', KEYS[2], unpack(due, from, math.min(from + 1999, #due))) end
for from = 1, #never, 1000 do call('ZREM', KEYS[2], unpack(never, from, math.min(from + 999, #never))) end
for from = 1, #gone, 1000 do call('UNLINK', unpack(gone, from, math.min(from + 999, #gone))) end

for _, r in ipairs(rows) do
  position = position + 1
  local t, id, p = tonumber(ARGV[r + 1]), ARGV[r + 3], text(position)
  call('XADD', KEYS[2 + t], p .. '-0', 's', ARGV[r + 2], 'i', id, 'a', ARGV[r + 4], 'b', ARGV[r + 5])
  call('HSET', KEYS[5 + t], id, p)
  for x in string.gmatch(ARGV[r + 6], '%d+') do call('RPUSH', KEYS[fixed + n + x], p) end
end
if position then
  call('HSET', KEYS[1], 'newest', text(position))
  resign(m)
  redis.pcall('PUBLISH', KEYS[1], text(m[4]) .. ' ' .. text(position) .. ' ' .. message)
end
local applied, newest = table.concat(answer), position and text(position) or ''
if any and keep ~= '0' then call('SET', KEYS[9], applied .. ' ' .. newest, 'PX', keep) end
return {'OK', applied, newest}
