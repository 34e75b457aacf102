-- Acts on overdue deadlines: delayed -> ready; reserved -> ready, delayed or dead; dead, finished -> gone.
-- ARGV  2 limit, 3 what the caller believes of the clock: see believed()
-- Reply next deadline ('' if none), now and the clock in microseconds, then for each topic: topic, number of jobs that
--       became ready, whose TTR expired, that died, that are gone
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, 'orders', 12, 1, 0, 0}

--- @include "shared/prelude"
--- @include "promote/budget"
--- @include "promote/delayed"

-- Creates the functions that only jobs other than delayed ones need; called only when such a job is due: see tools.lua.
local function make_promotions()
--- @include "shared/jobs"
--- @include "promote/jobs"
  promotions.prove_types, promotions.commit = prove_types, commit
  return promotions
end

-- How many sets that are due a call reads at once, and in all.
local PAGE_OF_SETS, MAX_SETS = 500, 10000

local made
local function promotions()
  made = made or make_promotions()
  return made
end

-- The reply of the bucket, and where the figures of each topic are in it.
local reply, places

local function add_figures(topic, counts)
  local place = places[topic]
  if not place then
    place = #reply + 1
    places[topic] = place
    reply[place], reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = topic, 0, 0, 0, 0
  end
  for n, name in ipairs({ 'ready', 'expired', 'dead', 'gone' }) do
    reply[place + n] = reply[place + n] + (counts[name] or 0)
  end
end

-- Reads the earliest overdue jobs of a set. Returns their number, the number of each outcome, and the members that join
-- the ready set (nil for other jobs, whose changes are gathered). Writes nothing.
local function read(set, state, topic, most)
  -- A score may be a fraction above its time.
  local before = '(' .. string.format('%d', NOW + 1)
  local found = redis.call('ZRANGE', set, '-inf', before, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  if #found == 0 then return 0 end
  if state == 'delayed' then return #found / 2, promote_delayed(topic, found) end
  local counts = promotions()[state](topic, found)
  promotions().prove_types()
  return #found / 2, counts
end

-- Acts on up to `most` jobs of a set that is due, and tells the timer when the set is due next.
local function act(set_name, state, topic, most)
  local set = key(state, topic)
  local sound, jobs, counts, ready = pcall(read, set, state, topic, most)
  -- Needs no memory and changes nothing: see prelude.lua.
  redis.call('ZREM', BUCKET, '')
  if not sound then
    discard()
    if string.find(error_text(jobs), '^NOPERM') then error(jobs, 0) end
    -- A key of this topic has another type. The other topics go on; this one is tried again in a minute.
    redis.call('ZADD', BUCKET, NOW + 60000, set_name)
    return
  end
  if jobs > 0 then
    redis.call('ZREMRANGEBYRANK', set, 1, 0)
    if ready then redis.call('ZADD', key('ready', topic), unpack(ready)) else promotions().commit(true) end
    redis.call('ZREMRANGEBYRANK', set, 0, jobs - 1)
    add_figures(topic, counts)
    if state == 'dead' or state == 'finished' then forget_if_empty(topic) end
  end
  spend(state, jobs)
  local _, score = unpack(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES'))
  if score then
    if not is_plain_time(score) and is_score(state, score) then score = time_of(state, score) end
    redis.call('ZADD', BUCKET, score, set_name)
  else
    redis.call('ZREM', BUCKET, set_name)
  end
end

-- The sets that are due, the earliest first: those of delayed jobs, of finished jobs, and the others. Sets of finished
-- jobs may be due for long, so reading goes on past a page of them.
local function due_sets()
  local delayed, others, finished = {}, {}, {}
  local now, read_names = string.format('%d', NOW), 0
  repeat
    local names = redis.call('ZRANGE', BUCKET, '-inf', now, 'BYSCORE', 'LIMIT', read_names, PAGE_OF_SETS)
    for _, set_name in ipairs(names) do
      local state, topic = string.match(set_name, '^(%l+):(.+)$')
      local list = state == 'delayed' and delayed or state == 'finished' and finished or others
      if not WORK[state] then
        redis.call('ZREM', BUCKET, set_name)
      elseif #list < 32 then
        list[#list + 1] = { set_name, state, topic }
      end
    end
    read_names = read_names + #names
  until #names < PAGE_OF_SETS or #delayed + #others > 0 or read_names >= MAX_SETS
  return delayed, others, finished
end

local function transition()
  -- After a jump of the clock, now is the time that the caller believes: see store/clock_watch.rs.
  NOW_MICROS = believed(ARGV[3])
  NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)
  reply, places = { '', NOW_MICROS, CLOCK_MICROS }, {}
  local delayed, others, finished = due_sets()
  begin_budget(tonumber(ARGV[2]), #others > 0)
  -- Finished jobs come last, and no set leaves them anything: forgetting them late does no harm.
  for _, sets in ipairs({ delayed, others, finished }) do
    for n, set in ipairs(sets) do
      local set_name, state, topic = unpack(set)
      local is_last = n == #sets and FOLLOWING == 0 and (sets ~= delayed or #others == 0)
      local most = budget_of(state, is_last)
      if most > 0 then act(set_name, state, topic, most) end
    end
  end
  end_budget()

  reply[1] = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')[2] or ''
  return reply
end

--- @include "shared/each_bucket"
