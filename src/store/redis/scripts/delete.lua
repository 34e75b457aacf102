-- any -> gone.
-- ARGV  for each job: id, codes of the states in which it is deleted ('*' is any state)
-- Reply for each job: its former state, or refusal; if the caller excluded that state, -20 minus its code

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

local function transition()
  local reply = {}
  each_job(2, function(id, text, i)
    local job, only = find_job(id, text), ARGV[i + 1]
    local topic, state
    if job then topic, state = locate_job(id, job.topic) end
    local code = STATE_CODE[state]
    if job and only ~= '*' and not (code and string.find(only, code, 1, true)) then
      reply[#reply + 1] = code and WRONG_STATE - code or UNREADABLE
      return
    end
    -- Removes even a job that is in no set or cannot be read, so that clients can get rid of it.
    if job then
      remove_job(id, state, topic, state == 'finished' or job.ended or may_have_history(text), job.rules)
    end
    reply[#reply + 1] = code or NOT_FOUND
  end)
  return reply
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
