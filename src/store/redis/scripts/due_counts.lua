-- Counts the delayed jobs of a topic by intervals of their due time; writes nothing.
-- ARGV  2 topic, 3 start of the first interval, 4 length of an interval in ms, 5 number of intervals
-- Reply for each interval: number of jobs

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  local set, start, length, reply = key('delayed', ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
  local function start_of(n) return string.format('%d', start + n * length) end
  for n = 1, tonumber(ARGV[5]) do
    reply[n] = redis.call('ZCOUNT', set, start_of(n - 1), '(' .. start_of(n))
  end
  return reply
end

--- @include "shared/each_bucket"
