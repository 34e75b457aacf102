-- reserved -> reserved, with a deadline one TTR from now.
-- ARGV  per job: id, reservation ('' goes by id alone), TTR in ms ('' is the one in force), what the caller believes of
--       the clock: see believed()
-- Reply per job: the end of the TTR, or refusal
local reply = {}

-- The time that a reservation with this deadline goes by; nil if it has lapsed. One from before a jump of the clock
-- goes on in the time that is believed until the clock is steady again: see store/steady.rs.
local function time_for(deadline, text)
  if deadline > NOW then return NOW_UP end
  local time = math.floor(believed(text) / 1000)
  return deadline > time and time or nil
end

each_job(4, function(id, text, i)
  local a, refusal = judge(text, id, ARGV[i + 1])
  local deadline = a and redis.call('ZSCORE', key('reserved', a.topic), id)
  local now = deadline and time_for(tonumber(deadline), ARGV[i + 3])
  if now then
    local ttr = tonumber(ARGV[i + 2]) or a.ttr
    if ttr ~= a.ttr then
      a.ttr = ttr
      note('attempt', id, attempt_text(a))
    end
    place('reserved', a.topic, id, now + ttr)
    reply[#reply + 1] = now + ttr
  else
    reply[#reply + 1] = refusal or RESERVATION_LOST
  end
end)
return reply
