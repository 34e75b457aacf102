-- Appends to `reply` the figures of a topic: its number of delayed, ready, reserved, dead and finished jobs, then the
-- earliest due time of a delayed and of a ready job (0 if there is none).
local function peek(topic, reply)
  local counts = {}
  for _, state in ipairs({ 'delayed', 'ready', 'reserved', 'dead', 'finished' }) do
    counts[state] = redis.call('ZCARD', key(state, topic))
    reply[#reply + 1] = counts[state]
  end
  for _, state in ipairs({ 'delayed', 'ready' }) do
    local first = counts[state] > 0 and redis.call('ZRANGE', key(state, topic), 0, 0, 'WITHSCORES')[2]
    reply[#reply + 1] = first and time_of(state, first) or 0
  end
end
