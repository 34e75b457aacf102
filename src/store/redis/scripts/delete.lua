-- any -> gone, or finished if its id is to be remembered.
-- ARGV  for each job: id, codes of the states in which it is deleted ('*' is any state), followed by ':' and the time for
--       which its id is remembered, in the form of policies, if it is to be remembered
-- Reply for each job: its former state, or refusal; if the caller excluded that state, -20 minus its code

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

-- Returns whether the job could be remembered. A job that cannot be read can only be deleted.
local function remember(id, job, topic, state, time, retention)
  if not (state and job.rules) then return false end
  local attempt = job.ended or job.attempt or { count = 0, reservation = '-' }
  local due = (state == 'delayed' or state == 'ready') and time or attempt.due or NOW
  local ending = { rules = job.rules, count = attempt.count, due = due, reservation = attempt.reservation }
  local policy = change_policy(job.rules.policy, 'f=' .. retention)
  if not keep_finished(id, ending, state, topic, policy, 'd') then return false end
  if job.ended then keep_entry(id, job, time) end
  return true
end

local function transition()
  local reply = {}
  each_job(2, function(id, text, i)
    local job, only, remembered = find_job(id, text), string.match(ARGV[i + 1], '^([^:]*):?(%w*)$')
    local topic, state, time
    if job then topic, state, time = locate_job(id, job.topic) end
    local code = STATE_CODE[state]
    if job and only ~= '*' and not (code and string.find(only, code, 1, true)) then
      reply[#reply + 1] = code and WRONG_STATE - code or UNREADABLE
      return
    end
    if job and remembered ~= '' then
      reply[#reply + 1] = remember(id, job, topic, state, time, remembered) and code or UNREADABLE
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
