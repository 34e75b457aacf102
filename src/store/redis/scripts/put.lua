-- absent -> delayed or ready; a living id is refused, kept or replaced.
-- ARGV  2 'new' if every job says 'reject', else ''; for each job: id, topic, schedule (see due_time), rest of its
--       record, 'reject' | 'keep' | 'replace'; a '+' after that word means that one more argument follows, a body that
--       is too long for the record
-- Reply for each job: if created, twice the due time, plus one if it is ready; or refusal; or
--       {1 kept | 2 replaced, state, due time}; or {refusal, state and topic of the living job}
--       e.g. {3527380120001, -7, {1, 3, 1763690060000}, {-2, 4, 'orders'}}

--- @include "shared/prelude"
--- @include "shared/tools"
--- @include "put/create"
--- @include "put/conflict"

local VERSION_AND_TIME = string.format('4 %07x%04x%04x ', math.floor(NOW / 65536), NOW % 65536, NOW % 65521)
local PLUS = string.byte('+')

-- Calls `visit(n, index in ARGV, whether a long body follows)` for each job.
local function visit_jobs(visit)
  local n, i, last = 1, 3, #ARGV
  while i <= last do
    local is_long = string.byte(ARGV[i + 4], -1) == PLUS
    visit(n, i, is_long)
    n, i = n + 1, i + (is_long and 6 or 5)
  end
end

-- Fails before anything is written if a key has another type. A call with a living id needs this: `conflict` writes in
-- the middle of the call, and only created jobs can be taken back.
local function prove_types_of_all()
  redis.call('ZCARD', BUCKET)
  redis.call('HEXISTS', BODIES, '')
  visit_jobs(function(_, i)
    redis.call('ZCARD', key('ready', ARGV[i + 1]))
    redis.call('ZCARD', key('delayed', ARGV[i + 1]))
  end)
end

local function has_repeated_or_living(ids, living)
  local seen = {}
  for n, id in ipairs(ids) do
    if living[n] or seen[id] then return true end
    seen[id] = true
  end
  return false
end

local function transition()
  local ids, reply = {}, {}
  visit_jobs(function(n, i) ids[n] = ARGV[i] end)
  if #ids == 0 then return reply end
  local living = redis.call('HMGET', POOL, unpack(ids))
  begin_creating()
  if has_repeated_or_living(ids, living) then prove_types_of_all() end

  -- Many jobs have the same schedule, and Redis takes a score faster as a text than as a number.
  local schedule, due, state, score
  visit_jobs(function(n, i, is_long)
    local id, topic, on_conflict = ids[n], ARGV[i + 1], ARGV[i + 4]
    if ARGV[i + 2] ~= schedule then
      schedule = ARGV[i + 2]
      due, state = due_time(schedule)
      score = due and string.format('%d', due)
    end
    local record, body = VERSION_AND_TIME .. ARGV[i + 3], is_long and ARGV[i + 5]
    if not due then
      reply[n] = DUE_TOO_FAR
    elseif living[n] or is_created(id) then
      write_created()
      if is_long then on_conflict = string.sub(on_conflict, 1, -2) end
      reply[n] = conflict(id, topic, due, state, record, body, on_conflict)
    else
      create(id, topic, due, state, score, record, body)
      reply[n] = state == 'ready' and due * 2 + 1 or due * 2
    end
  end)
  write_created()
  return reply
end

--- @include "shared/each_bucket"
