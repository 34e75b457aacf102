-- Every deadline that has come: delayed -> ready; reserved -> ready, delayed or dead; dead -> gone.
-- ARGV  2 limit, 3 the latest time in ms that the caller believes ('' believes the clock)
-- Reply next deadline ('' if none), now and the clock in microseconds, then per topic: topic, how many ready, expired,
--       dead, gone
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, 'orders', 12, 1, 0, 0}
-- After a jump of the clock, now is the time that is believed: see store/steady.rs.
local CLOCK_MICROS, latest = NOW_MICROS, tonumber(ARGV[3])
if latest and latest < NOW then
  NOW, NOW_UP, NOW_MICROS = latest, latest, latest * 1000
end
-- unpack takes a few thousand values.
local left = math.min(tonumber(ARGV[2]), 1000)
local moved, topics = {}, {}

-- Counts what has become of jobs of a topic.
local function count(topic, what, jobs)
  if not moved[topic] then
    moved[topic] = { ready = 0, expired = 0, dead = 0, gone = 0 }
    topics[#topics + 1] = topic
  end
  moved[topic][what] = moved[topic][what] + jobs
end

local promote = {}

function promote.delayed(topic, due)
  local members = {}
  for n = 1, #due, 2 do
    members[n], members[n + 1] = due[n + 1], due[n]
  end
  redis.call('ZADD', key('ready', topic), unpack(members))
  count(topic, 'ready', #due / 2)
end

-- The next attempt counts from the end of the TTR, so it does not matter when this runs.
function promote.reserved(topic, due)
  for n = 1, #due, 2 do
    local id, deadline = due[n], tonumber(due[n + 1])
    local a = parse_attempt(redis.call('HGET', ATTEMPTS, id))
    count(topic, 'expired', 1)
    if a then
      a.error = 'ttr expired'
      if spent(a) then
        a.died = deadline
        count(topic, 'dead', 1)
        place('dead', topic, id, deadline + a.retention)
      elseif place_due(topic, id, deadline + backoff_delay(a, id)) == 'ready' then
        count(topic, 'ready', 1)
      end
      redis.call('HSET', ATTEMPTS, id, attempt_text(a))
    else
      -- Its attempt record is unreadable: the attempts start again, the job is not lost.
      redis.call('HDEL', ATTEMPTS, id)
      place('ready', topic, id, deadline)
      count(topic, 'ready', 1)
    end
  end
end

function promote.dead(topic, due)
  for n = 1, #due, 2 do
    redis.call('HDEL', POOL, due[n])
    redis.call('HDEL', ATTEMPTS, due[n])
    count(topic, 'gone', 1)
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
local reply = { next[2] or '', NOW_MICROS, CLOCK_MICROS }
for _, topic in ipairs(topics) do
  local n = moved[topic]
  for _, value in ipairs({ topic, n.ready, n.expired, n.dead, n.gone }) do
    reply[#reply + 1] = value
  end
end
return reply
