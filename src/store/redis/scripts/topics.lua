-- Reads topics in the order of their names; writes nothing.
-- ARGV  2 first and 3 last name as ZRANGE BYLEX takes them, 4 limit
-- Reply now, then per topic: name, and as peek.lua tells it
local reply = { NOW }
for _, topic in ipairs(redis.call('ZRANGE', TOPICS, ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])) do
  reply[#reply + 1] = topic
  peek(topic, reply)
end
return reply
