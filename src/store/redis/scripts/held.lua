-- Reads who holds the reserved jobs of one topic, in steps; writes nothing.
-- ARGV  2 topic, 3 cursor ('0' at the beginning)
-- Reply the next cursor ('0' at the end), then per job: id, reservation
--       e.g. {'0', '7', '00000000000a1003'}
local step = redis.call('ZSCAN', key('reserved', ARGV[2]), ARGV[3], 'COUNT', 200)
local reply, found = { step[1] }, step[2]
for n = 1, #found, 2 do
  local a = parse_attempt(redis.call('HGET', ATTEMPTS, found[n]))
  if a then
    reply[#reply + 1] = found[n]
    reply[#reply + 1] = a.reservation
  end
end
return reply
