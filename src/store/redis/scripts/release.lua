-- popped -> ready or delayed by the given delay or the job's backoff; dead if attempts are spent.
-- ARGV  per job: id, reservation ('' goes by id alone), delay in ms ('' is the backoff's), error
-- Reply per job: state, topic, due time, 1 if it died by this; or refusal, '', 0, 0
local reply = {}

local function release(id, a, delay, error)
  -- A reserved or dead job's due time is in its record; of another it is where the job stands.
  local state, score = state_of(a.topic, id)
  if state == 'ready' or state == 'delayed' then a.due = score end
  local died = 0
  take(a.topic, id)
  a.error, a.reservation = error, '-'
  if state == 'dead' then
    place('dead', a.topic, id, a.died + a.retention)
  elseif spent(a) then
    state, a.died, died = 'dead', NOW, 1
    place('dead', a.topic, id, NOW + a.retention)
  else
    delay = delay or backoff_delay(a, id)
    a.due = delay == 0 and NOW or NOW_UP + delay
    state = place_due(a.topic, id, a.due)
  end
  redis.call('HSET', ATTEMPTS, id, attempt_text(a))
  return STATE_CODE[state], a.topic, a.due, died
end

for i = 2, #ARGV, 4 do
  local id, n = ARGV[i], #reply
  local a, refusal = held(id, ARGV[i + 1])
  if a then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] =
      release(id, a, tonumber(ARGV[i + 2]), ARGV[i + 3])
  else
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = refusal, '', 0, 0
  end
end
return reply
