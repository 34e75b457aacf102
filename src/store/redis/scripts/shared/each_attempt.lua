--- @include "shared/each_job"

-- Calls `act(id, attempt, index of the id in ARGV, attempt record)` for each job of a batch whose reservation, the
-- argument behind the id, holds. Returns the reply: for each job the four values of `act` (state, topic, due time, 1 if
-- the job died by this call), or refusal, '', 0, 0.
local function each_attempt(stride, act)
  local reply = {}
  each_job(stride, function(id, text, i)
    local n = #reply
    local attempt, refusal = authorize(text, id, ARGV[i + 1])
    if attempt then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = act(id, attempt, i, text)
    else
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = refusal, '', 0, 0
    end
  end)
  return reply
end
