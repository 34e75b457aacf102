-- Every deadline that has come: delayed -> ready; reserved -> ready, delayed or dead; dead -> gone.
-- ARGV  2 limit, 3 what the caller believes of the clock: see believed()
-- Reply next deadline ('' if none), now and the clock in microseconds, then per topic: topic, how many ready, expired,
--       dead, gone
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, 'orders', 12, 1, 0, 0}
-- After a jump of the clock, now is the time that is believed: see store/steady.rs.
NOW_MICROS = believed(ARGV[3])
NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)
-- unpack takes a few thousand values. What is more than a move of ids is as much work as four moves.
-- What one bucket of the call leaves of both is for the next.
local limit, work = shared.limit or math.min(tonumber(ARGV[2]), 1000), shared.work or 1000
local WORK = { delayed = 1, reserved = 4, dead = 4 }
local moved, topics = {}, {}

-- Each places what has come of a topic, and answers what becomes of it.
local promote = {}

function promote.delayed(topic, ids, due)
  for n, id in ipairs(ids) do place('ready', topic, id, due[n]) end
  return { ready = #ids }
end

-- The next attempt counts from the end of the TTR, so it does not matter when this runs.
function promote.reserved(topic, ids, due)
  local texts, of = redis.call('HMGET', ATTEMPTS, unpack(ids)), { ready = 0, expired = #ids, dead = 0 }
  for n, id in ipairs(ids) do
    local job, deadline, became = find(id, texts[n]) or {}, due[n], 'ready'
    local a, rules, error = job.attempt, job.rules, TTR_EXPIRED
    if not a then
      -- Its attempt record is unreadable: the attempts start again, the job is not lost.
      note('no_attempt', id)
      place('ready', topic, id, deadline)
    else
      local wait = rules and backoff_delay(rules.backoff, a.attempt, id)
      -- A job whose rules cannot be read is set aside, as a pop would do.
      if not wait then rules, error = rules_aside(id, topic), DAMAGED end
      a.error, a.rules = error, rules.text
      if error == DAMAGED or rules.max > 0 and a.attempt >= rules.max then
        a.died, became = deadline, 'dead'
        place('dead', topic, id, deadline + rules.retention)
      else
        became = place_due(topic, id, deadline + wait)
      end
      note('attempt', id, attempt_text(a))
    end
    if of[became] then of[became] = of[became] + 1 end
  end
  return of
end

function promote.dead(topic, ids)
  for _, id in ipairs(ids) do remove(id, nil, topic) end
  return { gone = #ids }
end

-- What has come of a set: the ids, and what becomes of them. Nothing is written before this ends.
local function read(state, topic, most)
  local found = redis.call('ZRANGE', key(state, topic), '-inf', NOW, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  local ids, due, of = {}, {}, {}
  for n = 1, #found, 2 do
    ids[#ids + 1], due[#due + 1] = found[n], time_of(found[n + 1])
  end
  if #ids > 0 then of = promote[state](topic, ids, due) end
  prove()
  return ids, of
end

local function count(topic, of)
  if not moved[topic] then
    moved[topic] = { ready = 0, expired = 0, dead = 0, gone = 0 }
    topics[#topics + 1] = topic
  end
  for what, jobs in pairs(of) do moved[topic][what] = moved[topic][what] + jobs end
end

for _, name in ipairs(redis.call('ZRANGE', BUCKET, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 64)) do
  local state, topic = string.match(name, '^(%l+):(.+)$')
  if limit <= 0 or work < 4 then break end
  local sound, ids, of = false, {}, {}
  if WORK[state] then
    sound, ids, of = pcall(read, state, topic, math.min(limit, math.floor(work / WORK[state])))
  end
  if sound then
    -- The first write frees.
    if #ids > 0 then
      redis.call('ZREMRANGEBYRANK', key(state, topic), 0, #ids - 1)
      count(topic, of)
    else
      redis.call('ZREM', BUCKET, name)
    end
    commit(true)
    limit, work = limit - #ids, work - #ids * WORK[state]
    local head = redis.call('ZRANGE', key(state, topic), 0, 0, 'WITHSCORES')
    if head[1] then redis.call('ZADD', BUCKET, head[2], name) else redis.call('ZREM', BUCKET, name) end
  else
    -- A key of this topic is no sorted set. The others go on, and this one is tried again.
    nothing()
    redis.call('ZREM', BUCKET, name)
    if WORK[state] then redis.call('ZADD', BUCKET, NOW + 60000, name) end
  end
end

shared.limit, shared.work = limit, work

local head = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')
local reply = { head[2] or '', NOW_MICROS, CLOCK_MICROS }
for _, topic in ipairs(topics) do
  local n = moved[topic]
  for _, value in ipairs({ topic, n.ready, n.expired, n.dead, n.gone }) do
    reply[#reply + 1] = value
  end
end
return reply
