-- reserved -> reserved, with a deadline one TTR from now.
-- ARGV  per job: id, reservation ('' goes by id alone), TTR in ms ('' is the one in force)
-- Reply per job: the end of the TTR, or refusal
local reply = {}
each_job(3, function(id, text, i)
  local a, refusal = judge(text, id, ARGV[i + 1])
  local deadline = a and redis.call('ZSCORE', key('reserved', a.topic), id)
  if deadline and tonumber(deadline) > NOW then
    take('reserved', a.topic, id)
    local ttr = tonumber(ARGV[i + 2]) or a.ttr
    if ttr ~= a.ttr then
      a.ttr = ttr
      note('attempt', id, attempt_text(a))
    end
    place('reserved', a.topic, id, NOW_UP + ttr)
    reply[#reply + 1] = NOW_UP + ttr
  else
    reply[#reply + 1] = refusal or RESERVATION_LOST
  end
end)
return reply
