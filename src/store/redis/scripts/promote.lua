-- Acts on overdue deadlines: delayed -> ready; delayed, ready -> dead (expired); reserved -> ready, delayed or dead;
-- dead, finished -> gone. A job that dies may be ready in another topic instead: see die.lua.
-- ARGV  2 limit, 3 what the caller believes of the clock: see believed()
-- Reply next deadline ('' if none), now and the clock in microseconds, then for each topic: topic, number of jobs that
--       became ready, whose TTR expired, that died, that are gone, that died and moved to another topic, and the highest
--       priority of the jobs that became ready
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, 'orders', 12, 1, 0, 0, 0, 4}

--- @include "shared/prelude"
--- @include "promote/budget"
--- @include "promote/delayed"
--- @include "promote/due"

-- Creates the functions that only jobs other than delayed ones need; called only when such a job is due: see tools.lua.
local function make_promotions()
--- @include "shared/jobs"
--- @include "promote/jobs"
  promotions.prove_types, promotions.commit = prove_types, commit
  return promotions
end

local made
local function promotions()
  made = made or make_promotions()
  return made
end

-- The reply of the bucket, and where the values of each topic begin in it.
local reply, firsts

local function add_figures(topic, counts)
  local first = firsts[topic]
  if not first then
    first = #reply + 1
    firsts[topic] = first
    reply[first] = topic
    for n = 1, 6 do reply[first + n] = 0 end
  end
  for n, name in ipairs({ 'ready', 'expired', 'dead', 'gone', 'moved' }) do
    reply[first + n] = reply[first + n] + (counts[name] or 0)
  end
  reply[first + 6] = math.max(reply[first + 6], counts.highest or 0)
end

--- @include "promote/act"

-- The next deadline of the bucket; '' if there is none.
local function next_deadline()
  local next = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')[2]
  local next_end = redis.call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')[2]
  if next and next_end then return tonumber(next) < tonumber(next_end) and next or next_end end
  return next or next_end or ''
end

local function transition()
  -- After a jump of the clock, now is the time that the caller believes: see store/clock_watch.rs.
  NOW_MICROS = believed(ARGV[3])
  NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)
  reply, firsts = { '', NOW_MICROS, CLOCK_MICROS }, {}
  local delayed, others, finished = due_sets()
  begin_budget(tonumber(ARGV[2]), #others > 0)
  -- Finished jobs come last, and no other set reserves a part of the budget for them, since deleting them late does no
  -- harm.
  for _, sets in ipairs({ delayed, others, finished }) do
    for n, set in ipairs(sets) do
      local set_name, state, topic = unpack(set)
      local is_last = n == #sets and FOLLOWING == 0 and (sets ~= delayed or #others == 0)
      local most = budget_of(state, is_last)
      if most > 0 then act(set_name, state, topic, most) end
    end
  end
  end_budget()

  reply[1] = next_deadline()
  return reply
end

--- @include "shared/each_bucket"
