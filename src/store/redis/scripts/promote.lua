-- Every deadline that has come: delayed -> ready; reserved -> ready, delayed or dead; dead -> gone.
-- ARGV  2 limit
-- Reply next deadline ('' if none), now, expired, dead, gone, then per topic: topic, how many ready
--       e.g. {'1763690060000', 1763690059000, 0, 0, 0, 'orders', 12}
-- unpack takes a few thousand values.
local left = math.min(tonumber(ARGV[2]), 1000)
local ready, expired, dead, gone = {}, 0, 0, 0

local promote = {}

function promote.delayed(topic, due)
  local members = {}
  for n = 1, #due, 2 do
    members[n], members[n + 1] = due[n + 1], due[n]
  end
  redis.call('ZADD', key('ready', topic), unpack(members))
  ready[topic] = (ready[topic] or 0) + #due / 2
end

-- The next attempt counts from the end of the TTR, so it does not matter when this runs.
function promote.reserved(topic, due)
  for n = 1, #due, 2 do
    local id, deadline = due[n], tonumber(due[n + 1])
    local a = parse_attempt(redis.call('HGET', ATTEMPTS, id))
    expired = expired + 1
    if a then
      a.error = 'ttr expired'
      if spent(a) then
        a.died, dead = deadline, dead + 1
        place('dead', topic, id, deadline + a.retention)
      elseif place_due(topic, id, deadline + backoff_delay(a, id)) == 'ready' then
        ready[topic] = (ready[topic] or 0) + 1
      end
      redis.call('HSET', ATTEMPTS, id, attempt_text(a))
    else
      -- Its attempt record is unreadable: the attempts start again, the job is not lost.
      redis.call('HDEL', ATTEMPTS, id)
      place('ready', topic, id, deadline)
      ready[topic] = (ready[topic] or 0) + 1
    end
  end
end

function promote.dead(topic, due)
  for n = 1, #due, 2 do
    redis.call('HDEL', POOL, due[n])
    redis.call('HDEL', ATTEMPTS, due[n])
    gone = gone + 1
  end
  leave(topic)
end

for _, name in ipairs(redis.call('ZRANGE', BUCKET, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 64)) do
  if left == 0 then break end
  local state, topic = string.match(name, '^(%l+):(.+)$')
  local set = key(state, topic)
  local due = redis.call('ZRANGE', set, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, left, 'WITHSCORES')
  redis.call('ZREM', BUCKET, name)
  if #due > 0 then
    redis.call('ZREMRANGEBYRANK', set, 0, #due / 2 - 1)
    promote[state](topic, due)
    left = left - #due / 2
  end
  local head = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if head[1] then redis.call('ZADD', BUCKET, head[2], name) end
end

local next = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')
local reply = { next[2] or '', NOW, expired, dead, gone }
for topic, count in pairs(ready) do
  reply[#reply + 1], reply[#reply + 2] = topic, count
end
return reply
