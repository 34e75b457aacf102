-- Reads one topic; writes nothing.
-- ARGV  2 topic
-- Reply how many are delayed, ready, reserved, dead; earliest due time of a delayed job and of a
--       ready one (0 if none); now
local topic, reply = ARGV[2], {}
for _, state in ipairs({ 'delayed', 'ready', 'reserved', 'dead' }) do
  reply[#reply + 1] = redis.call('ZCARD', key(state, topic))
end
for _, state in ipairs({ 'delayed', 'ready' }) do
  reply[#reply + 1] = tonumber(redis.call('ZRANGE', key(state, topic), 0, 0, 'WITHSCORES')[2] or 0)
end
reply[#reply + 1] = NOW
return reply
