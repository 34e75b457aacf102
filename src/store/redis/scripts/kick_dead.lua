-- dead -> ready now, attempts from zero, for the jobs of a topic that died first.
-- ARGV  2 topic, 3 limit
-- Reply how many
-- unpack takes a few thousand values.
local topic, limit = ARGV[2], math.min(tonumber(ARGV[3]), 1000)
local set, ready = key('dead', topic), {}
local ids = redis.call('ZRANGE', set, 0, limit - 1)
redis.call('ZCARD', key('ready', topic))
if #ids > 0 then
  -- Throw, before anything is changed, if they may not.
  redis.call('ZREM', BUCKET, '')
  redis.call('HDEL', ATTEMPTS, '')
  redis.call('ZREMRANGEBYRANK', set, 1, 0)
  for _, id in ipairs(ids) do
    ready[#ready + 1], ready[#ready + 2] = NOW, id
  end
  redis.call('ZADD', key('ready', topic), unpack(ready))
  redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
  redis.call('HDEL', ATTEMPTS, unpack(ids))
  if redis.pcall('EXISTS', set) == 0 then redis.call('ZREM', BUCKET, 'dead:' .. topic) end
end
return { #ids }
