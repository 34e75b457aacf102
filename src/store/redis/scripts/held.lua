-- Reads the reservations of one topic in steps; writes nothing.
-- ARGV  2 topic, 3 cursor ('0' at the beginning)
-- Reply the next cursor ('0' at the end), then for each reserved job: id, reservation
--       e.g. {'0', '7', '00000000000a1003'}

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  local step = redis.call('ZSCAN', key('reserved', ARGV[2]), ARGV[3], 'COUNT', 200)
  local reply, found = { step[1] }, step[2]
  for n = 1, #found, 2 do
    local attempt = parse_attempt(redis.call('HGET', ATTEMPTS, found[n]))
    if attempt then
      reply[#reply + 1] = found[n]
      reply[#reply + 1] = attempt.reservation
    end
  end
  return reply
end

--- @include "shared/each_bucket"
