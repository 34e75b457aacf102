-- Reads jobs of one topic and state in the order of their scores; writes nothing.
-- ARGV  see shared/matching.lua
-- Reply number of jobs examined; if there may be more, the position of the last one (add_position); then for each job:
--       id, record, attempt record (''), history (''), state, due time or deadline

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"

local function transition()
  local state, limit, bytes = ARGV[3], math.min(tonumber(ARGV[4]), 250), 0
  local found, examined, last, last_score = select_jobs(limit)
  local jobs = {}
  for n = 1, #found, 2 do
    local id, score = found[n], found[n + 1]
    local record = with_long_body(id, redis.call('HGET', POOL, id) or '')
    local attempt = redis.call('HGET', ATTEMPTS, id)
    local has_history = state == 'finished' or may_have_history(attempt)
    local history = has_history and history_text(id) or ''
    bytes = bytes + #record + #history
    for _, value in ipairs({ id, record, attempt or '', history, STATE_CODE[state], time_of(state, score) }) do
      jobs[#jobs + 1] = value
    end
    if bytes > MAX_REPLY_BYTES and n + 1 < #found then
      last, last_score = id, score
      break
    end
  end
  local reply = { examined }
  add_position(reply, state, last, last_score)
  for _, value in ipairs(jobs) do reply[#reply + 1] = value end
  return reply
end

--- @include "shared/each_bucket"
