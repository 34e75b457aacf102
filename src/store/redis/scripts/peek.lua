-- Appends to `reply` what is told of a topic: how many jobs are delayed, ready, reserved, dead; earliest
-- due time of a delayed job and of a ready one (0 if none).
local function peek(topic, reply)
  local counts = {}
  for _, state in ipairs({ 'delayed', 'ready', 'reserved', 'dead' }) do
    counts[state] = redis.call('ZCARD', key(state, topic))
    reply[#reply + 1] = counts[state]
  end
  for _, state in ipairs({ 'delayed', 'ready' }) do
    local first = counts[state] > 0 and redis.call('ZRANGE', key(state, topic), 0, 0, 'WITHSCORES')[2]
    reply[#reply + 1] = first and time_of(first) or 0
  end
end
