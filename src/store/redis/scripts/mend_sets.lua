-- Compares sets with what the bucket knows of them, and mends that if told.
-- ARGV  2 '1' to mend, '' to tell only; then per set: state, topic
-- Reply per set: 0 if all is well, 1 the topic has no name in the bucket, 2 the timer does not know of
--       the set, or too late, 3 the key is no sorted set
local mend, reply = ARGV[2] == '1', {}

local function examine(state, topic)
  local head = redis.pcall('ZRANGE', key(state, topic), 0, 0, 'WITHSCORES')
  if head.err then return 3 end
  if not head[1] then return 0 end
  local named, word = redis.call('ZSCORE', TOPICS, topic), redis.call('ZSCORE', BUCKET, state .. ':' .. topic)
  local late = state ~= 'ready' and (not word or tonumber(word) > tonumber(head[2]))
  if mend and not named then redis.call('ZADD', TOPICS, 0, topic) end
  if mend and late then redis.call('ZADD', BUCKET, head[2], state .. ':' .. topic) end
  return late and 2 or not named and 1 or 0
end

for i = 3, #ARGV, 2 do reply[#reply + 1] = examine(ARGV[i], ARGV[i + 1]) end
return reply
