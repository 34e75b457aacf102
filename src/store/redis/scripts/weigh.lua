-- Reads how much there is in a topic; writes nothing.
-- ARGV  2 topic, 3 most jobs of a set to look at: of a larger one, so many with equal steps between them tell the
--       mean size of all; 4 where in the first step they begin (from 0 to below 1)
-- Reply jobs, bytes of their bodies
local topic, most, begin = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local jobs, bytes = 0, 0

local function some_of(set, count)
  if count <= most then return redis.call('ZRANGE', set, 0, -1) end
  local ids = {}
  for n = 1, most do
    local rank = math.floor((n - 1 + begin) * count / most)
    ids[n] = redis.call('ZRANGE', set, rank, rank)[1]
  end
  return ids
end

for _, state in ipairs(STATES) do
  local set = key(state, topic)
  local count = redis.call('ZCARD', set)
  if count > 0 then
    local ids, sum = some_of(set, count), 0
    for _, record in ipairs(redis.call('HMGET', POOL, unpack(ids))) do
      sum = sum + (record and body_length(record) or 0)
    end
    jobs, bytes = jobs + count, bytes + sum * count / #ids
  end
end
return { jobs, math.floor(bytes) }
