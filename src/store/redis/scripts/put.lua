-- absent -> delayed or ready; a living id is refused, kept or replaced.
-- ARGV  2 'new' if all are to be refused whose id lives, or ''; then per job: id, topic, schedule (see due_time),
--       rest of its record, 'reject' | 'keep' | 'replace'; with a '+' behind that word the body follows: it is too
--       long for the record
-- Reply per job: if created, twice the due time, and one more if it is ready; or refusal; or
--       {1 kept | 2 replaced, state, due time}; or {refusal, state and topic of the living job}
--       e.g. {3527380120001, -7, {1, 3, 1763690060000}, {-2, 4, 'orders'}}
local reply, created, ids
local version_and_time = string.format('4 %07x%04x%04x ', math.floor(NOW / 65536), NOW % 65536, NOW % 65521)

-- `created`: by topic, jobs whose record is written, on their way into its sets, together.
-- Where a topic has delayed jobs already, the bucket names their set, and its own name is known.
local function place_created()
  for topic, of in pairs(created) do
    local is_new = #of.ready > 0
    if is_new then redis.call('ZADD', key('ready', topic), unpack(of.ready)) end
    if #of.delayed > 0 then
      redis.call('ZADD', key('delayed', topic), unpack(of.delayed))
      is_new = redis.call('ZADD', BUCKET, 'LT', of.earliest, 'delayed:' .. topic) == 1 or is_new
    end
    if is_new then redis.pcall('ZADD', TOPICS, 0, topic) end
  end
end

-- `score`: the due time as a text, which Redis takes faster than a number.
local function create(id, topic, due, score, became)
  local of = created[topic]
  if not of then
    of = { ready = {}, delayed = {}, earliest = math.huge }
    created[topic] = of
  end
  local is_ready = became == 'ready'
  local set = is_ready and of.ready or of.delayed
  local last = #set
  set[last + 1], set[last + 2] = score, id
  if is_ready then return due * 2 + 1 end
  if due < of.earliest then of.earliest = due end
  return due * 2
end

-- The records written since the last time get into their sets. A key of another type may keep them from
-- it: then they are taken back, as if they had not been put. (A deadline may stay that is too early.)
local function placed()
  local sound, problem = pcall(place_created)
  if not sound then
    for topic, of in pairs(created) do
      for state, set in pairs({ ready = of.ready, delayed = of.delayed }) do
        for n = 2, #set, 2 do redis.pcall('ZREM', key(state, topic), set[n]) end
      end
    end
    redis.call('HDEL', POOL, unpack(ids))
    redis.pcall('HDEL', BODIES, unpack(ids))
    error(problem, 0)
  end
  created, ids = {}, {}
end

local function conflict(id, topic, due, became, record, body, on_conflict)
  local tools = tools()
  local living = tools.find(id, redis.call('HGET', ATTEMPTS, id))
  if not living then return EXISTS end
  local old, state, score = tools.locate(id, living.topic)
  -- A put keeps and replaces only what is of its own topic.
  if state and (on_conflict == 'reject' or old ~= topic) then return { EXISTS, STATE_CODE[state], old } end
  if on_conflict == 'reject' then return EXISTS end
  -- A job in no set is not alive, whatever its record says: it is replaced.
  if on_conflict == 'keep' and state then
    local held_or_dead = living.attempt and (state == 'reserved' or state == 'dead')
    return { 1, STATE_CODE[state], held_or_dead and living.attempt.due or score }
  end
  if state == 'reserved' then return RESERVED end
  if state then tools.leaves(old) end
  tools.take(state, old, id)
  tools.note('no_attempt', id)
  tools.note('record', id, record)
  if body then tools.note('body', id, body) else tools.note('no_body', id) end
  tools.place(became, topic, id, due)
  tools.name(topic)
  tools.commit()
  return { 2, STATE_CODE[became], due }
end

-- What keeps or replaces acts on what lives. It is not taken back, so the keys of all jobs of such a
-- call are known to be of the right type before anything is written.
local function prove_all()
  redis.call('ZCARD', BUCKET)
  redis.call('HEXISTS', BODIES, '')
  local i = 3
  while i <= #ARGV do
    redis.call('ZCARD', key('ready', ARGV[i + 1]))
    redis.call('ZCARD', key('delayed', ARGV[i + 1]))
    i = i + (string.find(ARGV[i + 4], '+', 1, true) and 6 or 5)
  end
end

local function transition()
  reply, created, ids = {}, {}, {}
  if ARGV[2] ~= 'new' then prove_all() end

  -- Many jobs have the same schedule.
  local schedule, due, became, score
  local i, last = 3, #ARGV
  while i <= last do
    local id, topic, on_conflict, body = ARGV[i], ARGV[i + 1], ARGV[i + 4], nil
    if ARGV[i + 2] ~= schedule then
      schedule = ARGV[i + 2]
      due, became = due_time(schedule)
      score = due and string.format('%d', due)
    end
    local record, answer = version_and_time .. ARGV[i + 3], DUE_TOO_FAR
    if on_conflict ~= 'reject' and string.sub(on_conflict, -1) == '+' then
      on_conflict, body, i = string.sub(on_conflict, 1, -2), ARGV[i + 5], i + 1
    end
    if due and redis.call('HSETNX', POOL, id, record) == 1 then
      ids[#ids + 1] = id
      if body then
        local sound, problem = pcall(redis.call, 'HSET', BODIES, id, body)
        if not sound then
          redis.call('HDEL', POOL, unpack(ids))
          error(problem, 0)
        end
      end
      answer = create(id, topic, due, score, became)
    elseif due then
      placed()
      answer = conflict(id, topic, due, became, record, body, on_conflict)
    end
    reply[#reply + 1] = answer
    i = i + 5
  end
  placed()
  return reply
end
