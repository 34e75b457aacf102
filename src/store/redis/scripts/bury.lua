-- popped -> dead, with an error text.
-- ARGV  per job: id, reservation ('' goes by id alone), error
-- Reply per job: its topic, or refusal
local reply = {}
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  local a, refusal = held(id, ARGV[i + 1])
  if a then
    local state, score = state_of(a.topic, id)
    take(a.topic, id)
    if state ~= 'dead' then a.died = NOW end
    -- A reserved or dead job's due time is in its record already.
    if state == 'ready' or state == 'delayed' then a.due = score end
    a.error, a.reservation = ARGV[i + 2], '-'
    redis.call('HSET', ATTEMPTS, id, attempt_text(a))
    place('dead', a.topic, id, a.died + a.retention)
  end
  reply[#reply + 1] = a and a.topic or refusal
end
return reply
