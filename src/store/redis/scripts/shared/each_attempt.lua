--- @include "shared/each_job"

-- Calls `act(id, attempt, index of the id in ARGV, attempt record)` for each job of a batch whose reservation (the
-- argument after the id) is valid. Returns the reply: for each job the five values of `act` (state, topic, due time, 1 if
-- the job died by this call, priority), or refusal, '', 0, 0, 0. If it died and moved, the topic that it left follows its
-- topic and a blank.
local function each_attempt(stride, act)
  local reply = {}
  each_job(stride, function(id, text, i)
    local n = #reply
    local attempt, refusal = authorize(text, id, ARGV[i + 1])
    if attempt then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = act(id, attempt, i, text)
      refusal = not reply[n + 2] and reply[n + 1]
    end
    if refusal then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = refusal, '', 0, 0, 0
    end
  end)
  return reply
end
