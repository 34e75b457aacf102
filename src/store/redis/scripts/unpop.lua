-- reserved -> ready, as if the pop had not been: before later jobs, the attempt uncounted.
-- ARGV  per job: id, reservation
-- Reply per job: its topic, or refusal
local reply = {}
each_job(2, function(id, text, i)
  local a, refusal = judge(text, id, ARGV[i + 1])
  if a and redis.call('ZSCORE', key('reserved', a.topic), id) then
    a.attempt, a.reservation = a.attempt - 1, '-'
    take('reserved', a.topic, id)
    if a.attempt == 0 then
      note('no_attempt', id)
    else
      note('attempt', id, attempt_text(a))
    end
    place('ready', a.topic, id, a.due)
    reply[#reply + 1] = a.topic
  else
    reply[#reply + 1] = refusal or RESERVATION_LOST
  end
end)
return reply
