-- delayed, dead -> ready now, for the jobs of a topic that match a filter; the attempts of dead jobs start from zero.
-- ARGV  see shared/matching.lua
-- Reply number of jobs, the highest priority among them, and the position of the last job examined if there may be more
--       (add_position)

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"
--- @include "shared/revive"
--- @include "promote/delayed"

-- Gathers the writes of a kick, except that the job leaves its set. Returns its priority.
local function kick(id, score, state, topic)
  local rules
  if state == 'dead' then
    local text = redis.call('HGET', ATTEMPTS, id)
    -- Only these policies matter to a kick: see shared/score.lua.
    if tonumber(score) % 1 ~= 0 then rules = (find_job(id, text) or {}).rules end
    rules = revive(id, text, rules, topic)
  else
    -- It stays in the set of jobs that expire.
    rules = { priority = priority_of_ready(tonumber(ready_score(score))) }
    join_set('ready', topic, id, NOW, rules)
  end
  return rules and rules.priority or STANDARD_PRIORITY
end

local function transition()
  local topic, state, highest = ARGV[2], ARGV[3], 0
  -- unpack takes a few thousand values.
  local found, _, last, last_score = select_jobs(math.min(tonumber(ARGV[4]), 1000))
  for n = 1, #found, 2 do
    highest = math.max(highest, kick(found[n], found[n + 1], state, topic))
    leave_set(state, topic, found[n])
  end
  commit()
  local reply = { #found / 2, highest }
  add_position(reply, state, last, last_score)
  return reply
end

--- @include "shared/each_bucket"
