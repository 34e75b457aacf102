-- reserved -> reserved, with a deadline one TTR from now.
-- ARGV  per job: id, reservation ('' goes by id alone), TTR in ms ('' is the one in force)
-- Reply per job: the end of the TTR, or refusal
local reply = {}
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  local a, refusal = held(id, ARGV[i + 1])
  local deadline = a and redis.call('ZSCORE', key('reserved', a.topic), id)
  if deadline and tonumber(deadline) > NOW then
    a.ttr = tonumber(ARGV[i + 2]) or a.ttr
    take(a.topic, id)
    redis.call('HSET', ATTEMPTS, id, attempt_text(a))
    place('reserved', a.topic, id, NOW_UP + a.ttr)
    reply[#reply + 1] = NOW_UP + a.ttr
  else
    reply[#reply + 1] = refusal or RESERVATION_LOST
  end
end
return reply
