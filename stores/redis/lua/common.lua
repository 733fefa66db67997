-- What every script begins with. Positions are numbers of Lua, exact to 2^53;
-- versions are text, compared and never reckoned with.

-- life names one unbroken life of the data in one server: another process, or
-- one that was a replica meanwhile, may hold less than was answered before.
local function life()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local before = string.match(redis.call('INFO', 'replication'), 'master_replid2:(%w+)')
  return (run or '') .. ':' .. (before or '')
end

-- head reads the log's head: schema, life, epoch, newest, base. Where it is
-- that of another schema or life it returns what to answer instead.
local function head(key, schema)
  local m = redis.call('HMGET', key, 'schema', 'life', 'epoch', 'newest', 'base')
  if m[1] ~= schema then return nil, {'SCHEMA', m[1] or ''} end
  if m[2] ~= life() then return nil, {'LIFE'} end
  if not (m[3] and tonumber(m[4]) and tonumber(m[5])) then return nil, {'CORRUPT', 'head'} end
  return m
end

local function text(position) return string.format('%.0f', position) end

-- full: positions beyond this one are not exact.
local full = 9007199254740000

-- sound is false where a key holds another kind of value than ours, which a
-- write would fail at when others have landed.
local function sound(command, key) return type(redis.pcall(command, key)) == 'number' end

-- ours is false for an entry of a stream that is none of our rows: scope, id,
-- time and body, each behind its field.
local function ours(entry) return #entry[2] == 8 and tonumber(entry[2][6]) end
