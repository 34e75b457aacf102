-- any -> gone, for the first jobs of one topic and state.
-- ARGV  2 topic, 3 state, 4 limit
-- Reply how many
-- unpack takes a few thousand values.
local topic, set, limit = ARGV[2], key(ARGV[3], ARGV[2]), math.min(tonumber(ARGV[4]), 1000)
local ids = redis.call('ZRANGE', set, 0, limit - 1)
if #ids > 0 then
  redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
  redis.call('HDEL', ATTEMPTS, unpack(ids))
  redis.call('HDEL', POOL, unpack(ids))
  if redis.call('EXISTS', set) == 0 then redis.call('ZREM', BUCKET, ARGV[3] .. ':' .. topic) end
  leave(topic)
end
return { #ids }
