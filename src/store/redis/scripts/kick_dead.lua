-- dead -> ready now, attempts from zero, for the jobs of a topic that died first.
-- ARGV  2 topic, 3 limit
-- Reply number of jobs

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  -- unpack takes a few thousand values.
  local topic, limit = ARGV[2], math.min(tonumber(ARGV[3]), 1000)
  local set, members = key('dead', topic), {}
  local ids = redis.call('ZRANGE', set, 0, limit - 1)
  redis.call('ZCARD', key('ready', topic))
  if #ids > 0 then
    -- These fail before anything is changed if they are forbidden.
    redis.call('ZREM', BUCKET, '')
    redis.call('HDEL', ATTEMPTS, '')
    redis.call('ZREMRANGEBYRANK', set, 1, 0)
    for _, id in ipairs(ids) do
      members[#members + 1], members[#members + 2] = NOW, id
    end
    redis.call('ZADD', key('ready', topic), unpack(members))
    redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
    redis.call('HDEL', ATTEMPTS, unpack(ids))
    if redis.pcall('EXISTS', set) == 0 then redis.call('ZREM', BUCKET, 'dead:' .. topic) end
  end
  return { #ids }
end

--- @include "shared/each_bucket"
