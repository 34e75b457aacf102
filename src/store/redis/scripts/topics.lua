-- Reads topics in the order of their names; writes nothing.
-- ARGV  2 first and 3 last name as ZRANGE BYLEX takes them, 4 limit
-- Reply per topic: name, how many are delayed, ready, reserved, dead
local reply = {}
local names = redis.call('ZRANGE', TOPICS, ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])
for _, topic in ipairs(names) do
  reply[#reply + 1] = topic
  for _, state in ipairs({ 'delayed', 'ready', 'reserved', 'dead' }) do
    reply[#reply + 1] = redis.call('ZCARD', key(state, topic))
  end
end
return reply
