-- dead -> ready now, attempts from zero, for the jobs of a topic that died first. Leaves the jobs whose policies decide more
-- than that: they have another priority, or expire (see shared/score.lua).
-- ARGV  2 topic, 3 limit; then ids of jobs to make ready instead of the first ones, whatever their policies say, because
--       their records are damaged
-- Reply number of jobs made ready, their priority, and the ids of the jobs left

--- @include "shared/prelude"

local function transition()
  local topic, limit = ARGV[2], math.min(tonumber(ARGV[3]), 1000) -- unpack takes a few thousand values
  local set, ready = key('dead', topic), key('ready', topic)
  local found = {}
  if ARGV[4] then
    for n = 4, #ARGV do
      if redis.call('ZSCORE', set, ARGV[n]) then found[#found + 1], found[#found + 2] = ARGV[n], '0' end
    end
  else
    found = redis.call('ZRANGE', set, 0, limit - 1, 'WITHSCORES')
  end
  local ids, members, marks, reply = {}, {}, {}, { 0, 0 }
  for n = 1, #found, 2 do
    local id, last = found[n], #members
    if tonumber(found[n + 1]) % 1 == 0 then
      ids[#ids + 1] = id
      members[last + 1], members[last + 2] = NOW, id
      -- Only the mark of its history is left of an attempt record: a dead job has had an attempt.
      marks[last + 1], marks[last + 2] = id, 'h'
    else
      reply[#reply + 1] = id
    end
  end
  redis.call('ZCARD', ready)
  if #ids == 0 then return reply end
  redis.call('HEXISTS', ATTEMPTS, '')
  -- These fail before anything is changed if they are forbidden. HSET has no form that changes nothing: see commit.lua.
  redis.call('ZREM', ENDS, '')
  redis.call('ZADD', ENDS, 'XX', 0, '')
  redis.call('HSET', ATTEMPTS, unpack(marks))
  has_written = true
  redis.call('ZADD', ready, unpack(members))
  redis.call('ZREM', set, unpack(ids))
  if redis.pcall('EXISTS', set) == 0 then redis.call('ZREM', ENDS, 'dead:' .. topic) end
  reply[1], reply[2] = #ids, STANDARD_PRIORITY
  return reply
end

--- @include "shared/each_bucket"
