-- delayed, dead -> ready now; the attempts of a dead job start from zero.
-- ARGV  for each job: id
-- Reply for each job: its topic, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

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
      if state ~= 'ready' then
        leave_set(state, topic, id)
        if state == 'dead' and may_have_history(text) then
          save('attempt', id, 'h')
        elseif state == 'dead' then
          erase('attempt', id)
        end
        join_set('ready', topic, id, NOW)
      end
      reply[#reply + 1] = topic
    end
  end)
  return reply
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
