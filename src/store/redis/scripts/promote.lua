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
local LIMIT, MOST_WORK = math.min(tonumber(ARGV[2]), 1000), 1000
local limit, work = shared.limit or LIMIT, shared.work or MOST_WORK
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
  for _, id in ipairs(ids) do remove(id) end
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

-- Acts on a set that is due, on at most so many of its jobs, and tells the timer when it is due next.
local function act(name, state, topic, most)
  local set, sound, ids, of = key(state, topic), pcall(read, state, topic, most)
  -- Needs no memory and changes nothing: see prelude.lua.
  redis.call('ZREM', BUCKET, '')
  if not sound then
    nothing()
    if string.find(error_text(ids), '^NOPERM') then error(ids, 0) end
    -- A key of this topic is of another type. The others go on, and this one is tried again.
    redis.call('ZADD', BUCKET, NOW + 60000, name)
    return
  end
  if #ids > 0 then redis.call('ZREMRANGEBYRANK', set, 1, 0) end
  commit(true)
  if #ids > 0 then
    redis.call('ZREMRANGEBYRANK', set, 0, #ids - 1)
    count(topic, of)
    if state == 'dead' then leave(topic) end
  end
  limit, work = limit - #ids, work - #ids * WORK[state]
  local head = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if head[1] then redis.call('ZADD', BUCKET, head[2], name) else redis.call('ZREM', BUCKET, name) end
end

-- The sets that are due, the earliest first: those of delayed jobs, and the others.
local function due_sets()
  local delayed, others = {}, {}
  for _, name in ipairs(redis.call('ZRANGE', BUCKET, '-inf', NOW, 'BYSCORE', 'LIMIT', 0, 500)) do
    local state, topic = string.match(name, '^(%l+):(.+)$')
    local list = state == 'delayed' and delayed or others
    if not WORK[state] then
      redis.call('ZREM', BUCKET, name)
    elseif #list < 32 then
      list[#list + 1] = { name, state, topic }
    end
  end
  return delayed, others
end

local delayed, others = due_sets()

-- How many jobs of a set this call may act on. A mass that is due in one set must not make the jobs of others late:
-- while there are others, in this bucket or a later one of the call, a set gets half of what is left. Delayed jobs
-- come first and leave a quarter of what the bucket found; what costs more leaves later buckets an eighth of all.
local for_others = #others > 0 and { math.floor(limit / 4), work / 4 } or { 0, 0 }
local for_later = FOLLOWING > 0 and { math.floor(LIMIT / 8), MOST_WORK / 8 } or { 0, 0 }
local function share(state, is_last)
  local kept = state == 'delayed' and for_others or for_later
  local jobs = math.min(limit - kept[1], math.floor((work - kept[2]) / WORK[state]))
  return is_last and jobs or math.ceil(jobs / 2)
end

for _, sets in ipairs({ delayed, others }) do
  for n, set in ipairs(sets) do
    local name, state, topic = unpack(set)
    local is_last = n == #sets and FOLLOWING == 0 and (sets == others or #others == 0)
    local most = share(state, is_last)
    if most > 0 then act(name, state, topic, most) end
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
