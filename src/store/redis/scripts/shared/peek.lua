-- The earliest due time in a ready set; nil if it is empty. Each priority has its own order.
local function earliest_ready(set, count)
  local earliest, score = nil, redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  while score do
    earliest = math.min(earliest or math.huge, time_of('ready', score))
    if count == 1 or not is_score('ready', score) then break end
    local next_priority = (math.floor(score / PRIORITY_STEP) + 1) * PRIORITY_STEP
    local text = string.format('%.0f', next_priority)
    score = redis.call('ZRANGE', set, text, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  end
  return earliest
end

-- Appends to `reply` the figures of a topic: its number of delayed, ready, reserved, dead and finished jobs, then the
-- earliest due time of a delayed and of a ready job (0 if there is none).
local function peek(topic, reply)
  local counts = {}
  for _, state in ipairs({ 'delayed', 'ready', 'reserved', 'dead', 'finished' }) do
    counts[state] = redis.call('ZCARD', key(state, topic))
    reply[#reply + 1] = counts[state]
  end
  local delayed = counts.delayed > 0 and redis.call('ZRANGE', key('delayed', topic), 0, 0, 'WITHSCORES')[2]
  reply[#reply + 1] = delayed and time_of('delayed', delayed) or 0
  reply[#reply + 1] = counts.ready > 0 and earliest_ready(key('ready', topic), counts.ready) or 0
end
