-- reserved -> ready, as if the pop had not happened: with the old due time, and without the attempt.
-- ARGV  for each job: id, reservation
-- Reply for each job: the reply of readied.lua, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"
--- @include "shared/readied"

local function transition()
  local reply = {}
  each_job(2, function(id, text, i)
    local attempt, refusal = authorize(text, id, ARGV[i + 1])
    if attempt and redis.call('ZSCORE', key('reserved', attempt.topic), id) then
      local rules = parse_rules(id, attempt.rules)
      attempt.count, attempt.reservation = attempt.count - 1, '-'
      leave_set('reserved', attempt.topic, id)
      -- A job that died in another topic keeps the error of its last attempt there.
      if was_popped(attempt) or attempt.error ~= '' then
        save('attempt', id, format_attempt(attempt))
      elseif read_history(id, text).entries ~= '' then
        save('attempt', id, 'h')
      else
        erase('attempt', id)
        if attempt.mark ~= '' then erase('history', id) end
      end
      join_set('ready', attempt.topic, id, attempt.due, rules)
      reply[#reply + 1] = readied(attempt.topic, rules)
    else
      -- Only servers send an unpop, so no caller needs to know that the job is finished.
      reply[#reply + 1] = refusal ~= FINISHED and refusal or RESERVATION_LOST
    end
  end)
  return reply
end

--- @include "shared/each_bucket"
