-- Measures the jobs of a topic, except finished ones; writes nothing.
-- ARGV  2 topic, 3 maximum number of jobs of a set to measure: a larger set is estimated from this number of jobs at equal
--       distances; 4 position of the first of them within the first distance (from 0 to below 1)
-- Reply number of jobs, bytes of their bodies

--- @include "shared/prelude"
--- @include "shared/jobs"

local function sample(set, count, most, offset)
  if count <= most then return redis.call('ZRANGE', set, 0, -1) end
  local ids = {}
  for n = 1, most do
    local rank = math.floor((n - 1 + offset) * count / most)
    ids[n] = redis.call('ZRANGE', set, rank, rank)[1]
  end
  return ids
end

local function transition()
  local most, offset, jobs, bytes = tonumber(ARGV[3]), tonumber(ARGV[4]), 0, 0
  for _, state in ipairs(STATES) do
    local set = key(state, ARGV[2])
    local count = state == 'finished' and 0 or redis.call('ZCARD', set)
    if count > 0 then
      local ids, sum = sample(set, count, most, offset), 0
      for _, record in ipairs(redis.call('HMGET', POOL, unpack(ids))) do
        sum = sum + (record and body_length(record) or 0)
      end
      jobs, bytes = jobs + count, bytes + sum * count / #ids
    end
  end
  return { jobs, math.floor(bytes) }
end

--- @include "shared/each_bucket"
