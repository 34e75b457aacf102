-- any -> gone.
-- ARGV  for each job: id
-- Reply for each job: the state it was in, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

local function transition()
  local reply = {}
  each_job(1, function(id, text)
    local job = find_job(id, text)
    local topic, state
    if job then
      topic, state = locate_job(id, job.topic)
      -- Also a job that is in no set or cannot be read: this is the way to remove it.
      remove_job(id, state, topic)
    end
    reply[#reply + 1] = STATE_CODE[state] or NOT_FOUND
  end)
  return reply
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
