-- Reads the states of jobs; writes nothing.
-- ARGV  for each job: id
-- Reply for each job: the code of its state; 0 if there is no such job, or it is in no set

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  local reply = {}
  for n = 2, #ARGV do
    local id = ARGV[n]
    local job = find_job(id, redis.call('HGET', ATTEMPTS, id))
    local _, state
    if job then
      _, state = locate_job(id, job.topic)
    end
    reply[#reply + 1] = STATE_CODE[state] or 0
  end
  return reply
end

--- @include "shared/each_bucket"
