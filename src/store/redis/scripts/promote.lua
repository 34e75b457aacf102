-- Acts on overdue deadlines: delayed -> ready; dead, finished -> gone. Loads the jobs whose TTR has ended, or that have
-- expired; the core decides what becomes of them (decisions/).
-- ARGV  2 limit, 3 what the caller believes of the clock: see believed(), 4 how much later than others this caller acts on
--       deadlines that are no due times, in ms
-- Reply next deadline ('' if none), now and the clock in microseconds; a list with id, 1 if it has expired or 0, and texts
--       (loaded.lua) of each loaded job; then for each topic: topic, number of jobs that became ready, that are gone, and the
--       highest priority of the former
--       e.g. {'1763690060000', 1763690059000000, 1763690059000000, {}, 'orders', 12, 0, 4}

--- @include "shared/prelude"
--- @include "promote/budget"
--- @include "promote/delayed"
--- @include "promote/due"
--- @include "promote/overdue"

-- The reply of the bucket, and where the values of each topic begin in it.
local reply, firsts

local function add_figures(topic, ready, gone, highest)
  local first = firsts[topic]
  if not first then
    first = #reply + 1
    firsts[topic], reply[first], reply[first + 1], reply[first + 2], reply[first + 3] = first, topic, 0, 0, 0
  end
  reply[first + 1], reply[first + 2] = reply[first + 1] + ready, reply[first + 2] + gone
  reply[first + 3] = math.max(reply[first + 3], highest)
end

--- @include "promote/act"

-- The next deadline of the bucket; '' if there is none.
local function next_deadline()
  local next = redis.call('ZRANGE', BUCKET, 0, 0, 'WITHSCORES')[2]
  local next_end = redis.call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')[2]
  if next_end and LAG > 0 then next_end = string.format('%.17g', next_end + LAG) end
  if next and next_end then return tonumber(next) < tonumber(next_end) and next or next_end end
  return next or next_end or ''
end

local function transition()
  -- After a jump of the clock, now is the time that the caller believes: see store/clock_watch.rs.
  NOW_MICROS = believed(ARGV[3])
  NOW, NOW_UP = math.floor(NOW_MICROS / 1000), math.ceil(NOW_MICROS / 1000)
  LAG, overdue = tonumber(ARGV[4]), {}
  reply, firsts = { '', NOW_MICROS, CLOCK_MICROS, overdue }, {}
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
