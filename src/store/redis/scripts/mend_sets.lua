-- Compares sets with what the bucket knows of them, and mends that if told.
-- ARGV  2 '1' to mend, '' to tell only; then per set: state, topic
-- Reply per set: 0 if all is well, 1 the topic has no name in the bucket, 2 the timer does not know of
--       the set, or too late, 3 a score of the set, or the timer's, is no time, 4 the key is no sorted set
local mend, reply = ARGV[2] == '1', {}

local function is_time(score)
  local at = tonumber(score)
  return at >= 0 and at <= 1e14
end

-- Jobs of the set whose score is no time, each with one that is: now, but a dead job is kept for a while.
local function without_time(set, at)
  local found = {}
  for _, range in ipairs({ { '-inf', '(0' }, { '(1e14', '+inf' } }) do
    for _, id in ipairs(redis.call('ZRANGE', set, range[1], range[2], 'BYSCORE', 'LIMIT', 0, 500)) do
      found[#found + 1], found[#found + 2] = at, id
    end
  end
  return found
end

local function examine(state, topic)
  local set, name = key(state, topic), state .. ':' .. topic
  local head = redis.pcall('ZRANGE', set, 0, 0, 'WITHSCORES')
  if head.err then return 4 end
  if not head[1] then return 0 end
  local odd = without_time(set, state == 'dead' and NOW + STANDARD.retention or NOW)
  if mend and #odd > 0 then
    redis.call('ZADD', set, unpack(odd))
    head = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  end
  local named, word = redis.call('ZSCORE', TOPICS, topic), redis.call('ZSCORE', BUCKET, name)
  local late = state ~= 'ready' and (not word or tonumber(word) > tonumber(head[2]))
  local is_odd = #odd > 0 or word and not is_time(word)
  if mend and not named then redis.call('ZADD', TOPICS, 0, topic) end
  if mend and (late or is_odd and state ~= 'ready') then redis.call('ZADD', BUCKET, head[2], name) end
  return late and 2 or not named and 1 or is_odd and 3 or 0
end

for i = 3, #ARGV, 2 do reply[#reply + 1] = examine(ARGV[i], ARGV[i + 1]) end
return reply
