-- delayed, dead -> ready now; the attempts of a dead job start from zero.
-- ARGV  for each job: id
-- Reply for each job: the reply of readied.lua, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"
--- @include "shared/readied"
--- @include "shared/revive"

local function transition()
  local reply = {}
  each_job(1, function(id, text)
    local job = find_job(id, text)
    local topic, state
    if job then topic, state = locate_job(id, job.topic) end
    if not state then
      reply[#reply + 1] = NOT_FOUND
    elseif state == 'reserved' then
      reply[#reply + 1] = RESERVED
    elseif state == 'finished' then
      reply[#reply + 1] = FINISHED
    else
      if state ~= 'ready' then leave_set(state, topic, id) end
      if state == 'dead' then job.rules = revive(id, text, job.rules, topic) end
      if state == 'delayed' then join_set('ready', topic, id, NOW, job.rules) end
      reply[#reply + 1] = readied(topic, job.rules)
    end
  end)
  return reply
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
