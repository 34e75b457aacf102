-- Performs the gathered writes.

--- @include "shared/deadlines"

-- The hashes in the order in which they are written, each with its key. The hash of histories is not included, because its
-- errors are ignored.
local function hashes()
  return ipairs({ { 'attempt', ATTEMPTS }, { 'record', POOL }, { 'body', BODIES } })
end

-- Fails before anything is written if one of the keys has another type.
local function prove_types()
  for set in pairs(joining) do redis.call('ZCARD', TAG .. set) end
  for set in pairs(leaving) do
    -- A key of the wrong type is left out here, because jobs may stay in the set of jobs that expire.
    if string.find(set, '^expiring:') and not is_sorted_set(TAG .. set) then leaving[set] = nil end
  end
  for _, hash in hashes() do
    if #saved[hash[1]] + #erased[hash[1]] > 0 then redis.call('HEXISTS', hash[2], '') end
  end
end

-- Fails before anything is changed if this user may not perform the writes. HSET has no form that changes nothing, so
-- it is the first command that changes something.
local function prove_rights()
  if next(leaving) or next(joining) then
    redis.call('ZCARD', ENDS)
    redis.call('ZREM', BUCKET, '')
  end
  if next(joining) then redis.call('ZADD', BUCKET, 'XX', 0, '') end
  if #erased.attempt + #erased.record + #erased.body > 0 then redis.call('HDEL', ATTEMPTS, '') end
end

local function write_hashes(command, lists)
  for _, hash in hashes() do
    local list = lists[hash[1]]
    if #list > 0 then redis.call(command, hash[2], unpack(list)) end
  end
end

-- Errors are ignored: a missing entry is better than a transition that fails.
local function write_histories()
  if #saved.history > 0 then redis.pcall('HSET', TAG .. 'history', unpack(saved.history)) end
  if #erased.history > 0 then redis.pcall('HDEL', TAG .. 'history', unpack(erased.history)) end
end

-- Writes records first, then deadlines for the timer, the sets that jobs join, the sets that they leave, and names of
-- topics.
local function commit()
  prove_types()
  prove_rights()
  write_hashes('HSET', saved)
  has_written = true
  for set, time in pairs(earliest) do redis.call('ZADD', deadlines_of(set), 'LT', time, set) end
  for set, members in pairs(joining) do redis.call('ZADD', TAG .. set, unpack(members)) end
  for set, ids in pairs(leaving) do
    if #ids > 0 then redis.call('ZREM', TAG .. set, unpack(ids)) end
  end
  write_hashes('HDEL', erased)
  write_histories()
  for set in pairs(leaving) do
    -- A deadline may be years ahead, and the name of an empty set must not remain until then.
    if not string.find(set, '^re') and redis.pcall('EXISTS', TAG .. set) == 0 then
      redis.call('ZREM', deadlines_of(set), set)
    end
  end
  for topic in pairs(registered) do redis.pcall('ZADD', TOPICS, 0, topic) end
  for topic in pairs(shrunk) do forget_if_empty(topic) end
  discard_gathered()
end
