-- reserved -> ready, as if the pop had not been: before later jobs, the attempt uncounted.
-- ARGV  per job: id, reservation
-- Reply per job: its topic, or refusal
local reply = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local a, refusal = held(id, ARGV[i + 1])
  if a and redis.call('ZREM', key('reserved', a.topic), id) == 1 then
    a.attempt, a.reservation = a.attempt - 1, '-'
    if a.attempt == 0 then
      redis.call('HDEL', ATTEMPTS, id)
    else
      redis.call('HSET', ATTEMPTS, id, attempt_text(a))
    end
    place('ready', a.topic, id, a.due)
    reply[#reply + 1] = a.topic
  else
    reply[#reply + 1] = refusal or RESERVATION_LOST
  end
end
return reply
