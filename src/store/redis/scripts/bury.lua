-- popped -> dead, with an error text.
-- ARGV  per job: id, reservation ('' goes by id alone), error
-- Reply per job: state, topic, due time, 1 if it died by this; or refusal, '', 0, 0
local reply = {}

local function bury(id, a, error)
  local state, score = state_of(a.topic, id)
  local died = state ~= 'dead'
  take(a.topic, id)
  if died then a.died = NOW end
  -- A reserved or dead job's due time is in its record already.
  if state == 'ready' or state == 'delayed' then a.due = score end
  a.error, a.reservation = error, '-'
  redis.call('HSET', ATTEMPTS, id, attempt_text(a))
  place('dead', a.topic, id, a.died + a.retention)
  return STATE_CODE.dead, a.topic, a.due, died and 1 or 0
end

for i = 2, #ARGV, 3 do
  local id, n = ARGV[i], #reply
  local a, refusal = held(id, ARGV[i + 1])
  if a then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = bury(id, a, ARGV[i + 2])
  else
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = refusal, '', 0, 0
  end
end
return reply
