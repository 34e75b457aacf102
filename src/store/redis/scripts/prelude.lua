-- What every transition shares: prepended to each script, so that it is one text to Redis.
--
-- KEYS  1 pool, 2 attempts, 3 bucket; the topics' sorted sets are named from their tag, so every
--       key of a script lies in one slot. See keys.rs for what each holds.
--       4 a key that never exists. While a cluster moves the slot to another node, reaching for a
--       key that is there already (or nowhere) fails in the middle of a script, and what was
--       written before stays. With a missing key among its KEYS, Redis refuses to begin it.
-- ARGV  1 now in ms, or '' for the clock of this Redis. The rest is the script's own.
--
-- A job is in exactly one of its topic's four sorted sets: that is its state. Scripts read and
-- check first and write last; the first write always frees, so that a full Redis lets it pass.

local POOL, ATTEMPTS, BUCKET = KEYS[1], KEYS[2], KEYS[3]

-- Refusals, below zero; states, above. Mirrored in reply.rs.
local NOT_FOUND, EXISTS, RESERVATION_LOST, NEVER_POPPED = -1, -2, -3, -4
local RESERVED, DEAD, DUE_TOO_FAR = -5, -6, -7
local STATE_CODE = { delayed = 1, ready = 2, reserved = 3, dead = 4 }
local TEN_YEARS = 315576000000

-- What has come is judged by NOW, what is to come is counted from NOW_UP (see clock.rs).
local NOW_MICROS
if ARGV[1] == '' then
  local time = redis.call('TIME')
  NOW_MICROS = time[1] * 1000000 + time[2]
else
  NOW_MICROS = ARGV[1] * 1000
end
local NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)

local function key(state, topic)
  return string.sub(POOL, 1, -5) .. state .. ':' .. topic
end

-- The names of topics that have jobs in this bucket.
local TOPICS = string.sub(POOL, 1, -5) .. 'topics'

-- After jobs of a topic have gone: without any, its name goes too.
local function leave(topic)
  local sets = { key('delayed', topic), key('ready', topic), key('reserved', topic), key('dead', topic) }
  if redis.call('EXISTS', unpack(sets)) == 0 then redis.call('ZREM', TOPICS, topic) end
end

-- The due time of '+<delay in ms>' or '@<unix ms>'; nil if it is more than ten years ahead.
local function due_time(schedule)
  local number = tonumber(string.sub(schedule, 2))
  if string.sub(schedule, 1, 1) == '+' then
    return number == 0 and NOW or NOW_UP + number
  end
  if number - NOW > TEN_YEARS then return nil end
  return math.max(number, NOW)
end

-- The job's attempt before its first pop, from its pool record; nil if that is unreadable.
local function fresh(record)
  local ttr, max, retention, backoff, topic =
    string.match(record, '^1 %d+ %x+ (%d+) (%d+) (%d+) (%S+) (%S+)\n')
  return ttr and {
    attempt = 0, reservation = '-', due = 0, died = 0, ttr = tonumber(ttr), max = tonumber(max),
    retention = tonumber(retention), backoff = backoff, topic = topic, error = ''
  }
end

local ATTEMPT = '^(%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)\n(.*)$'

-- An attempt record; nil if there is none.
local function parse_attempt(text)
  if not text then return nil end
  local attempt, reservation, due, died, ttr, max, retention, backoff, topic, error =
    string.match(text, ATTEMPT)
  return attempt and {
    attempt = tonumber(attempt), reservation = reservation, due = tonumber(due),
    died = tonumber(died), ttr = tonumber(ttr), max = tonumber(max),
    retention = tonumber(retention), backoff = backoff, topic = topic, error = error
  }
end

local function attempt_text(a)
  -- The error text is appended, not formatted: it may have any bytes.
  return string.format('%d %s %d %d %d %d %d %s %s\n', a.attempt, a.reservation, a.due, a.died,
    a.ttr, a.max, a.retention, a.backoff, a.topic) .. a.error
end

-- The attempt of a living job, popped or not; nil if there is no such job.
local function find(id)
  local a = parse_attempt(redis.call('HGET', ATTEMPTS, id))
  if a then return a end
  local record = redis.call('HGET', POOL, id)
  return record and fresh(record)
end

-- The attempt on which somebody may act who sent this reservation ('' goes by id alone); else
-- nil and the refusal. `text` is its record: there is one exactly when attempt > 0.
local function judge(text, id, reservation)
  local a = parse_attempt(text)
  if a then
    if reservation == '' or reservation == a.reservation then return a end
    return nil, RESERVATION_LOST
  end
  if redis.call('HEXISTS', POOL, id) == 0 then return nil, NOT_FOUND end
  return nil, reservation == '' and NEVER_POPPED or RESERVATION_LOST
end

local function held(id, reservation)
  return judge(redis.call('HGET', ATTEMPTS, id), id, reservation)
end

-- The job's state and its score there.
local function state_of(topic, id)
  for _, state in ipairs({ 'reserved', 'ready', 'delayed', 'dead' }) do
    local score = redis.call('ZSCORE', key(state, topic), id)
    if score then return state, tonumber(score) end
  end
end

-- Removes the job from the set it is in and answers which that was.
local function take(topic, id)
  for _, state in ipairs({ 'reserved', 'ready', 'delayed', 'dead' }) do
    local set = key(state, topic)
    if redis.call('ZREM', set, id) == 1 then
      -- A deadline may lie years ahead; an empty set must not leave its name behind that long.
      if state ~= 'reserved' and state ~= 'ready' and redis.call('EXISTS', set) == 0 then
        redis.call('ZREM', BUCKET, state .. ':' .. topic)
      end
      return state
    end
  end
end

-- Adds the job to a set. `at`: its due time, or its deadline when reserved or dead.
local function place(state, topic, id, at)
  redis.call('ZADD', key(state, topic), at, id)
  if state ~= 'ready' then
    redis.call('ZADD', BUCKET, 'LT', at, state .. ':' .. topic)
  end
end

-- Places the job as delayed or, if `due` has come, as ready; answers which.
local function place_due(topic, id, due)
  local state = due <= NOW and 'ready' or 'delayed'
  place(state, topic, id, due)
  return state
end

local function spent(a)
  return a.max > 0 and a.attempt >= a.max
end

-- The wait after this attempt in ms: the same as Backoff::delay in job/backoff.rs.
local function backoff_delay(a, id)
  if a.backoff == '-' then return 0 end
  local values = string.match(a.backoff, '^list:(.+)$')
  if values then
    local n, wait = 0, 0
    for value in string.gmatch(values, '%d+') do
      n, wait = n + 1, tonumber(value)
      if n == a.attempt then break end
    end
    return wait
  end
  local initial, factor, max, jitter = string.match(a.backoff, '^exp:(.+):(.+):(.+):(.+)$')
  local wait = math.min(initial * math.pow(factor, a.attempt - 1), tonumber(max))
  local hash = 7
  for i = 1, #id do hash = (hash * 31 + string.byte(id, i)) % 65521 end
  local position = ((hash + a.attempt * 7919) % 65521) / 65521
  return math.floor(math.min(wait * (1 - jitter + 2 * jitter * position), tonumber(max)))
end
