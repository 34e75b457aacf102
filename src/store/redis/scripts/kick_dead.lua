-- dead -> ready now, attempts from zero, for the jobs of a topic that died first.
-- ARGV  2 topic, 3 limit
-- Reply number of jobs

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  -- unpack takes a few thousand values.
  local topic, limit = ARGV[2], math.min(tonumber(ARGV[3]), 1000)
  local set, members, marks = key('dead', topic), {}, {}
  local ids = redis.call('ZRANGE', set, 0, limit - 1)
  redis.call('ZCARD', key('ready', topic))
  if #ids > 0 then
    -- These fail before anything is changed if they are forbidden. HSET has no form that changes nothing: see commit.lua.
    redis.call('ZREM', BUCKET, '')
    redis.call('ZADD', BUCKET, 'XX', 0, '')
    redis.call('ZREMRANGEBYRANK', set, 1, 0)
    for _, id in ipairs(ids) do
      local last = #members
      members[last + 1], members[last + 2] = NOW, id
      -- Only the mark of its history is left of an attempt record: a dead job has had an attempt.
      marks[last + 1], marks[last + 2] = id, 'h'
    end
    redis.call('HSET', ATTEMPTS, unpack(marks))
    redis.call('ZADD', key('ready', topic), unpack(members))
    redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
    if redis.pcall('EXISTS', set) == 0 then redis.call('ZREM', BUCKET, 'dead:' .. topic) end
  end
  return { #ids }
end

--- @include "shared/each_bucket"
