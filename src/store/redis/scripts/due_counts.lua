-- Counts delayed jobs by the step of time in which they fall due; writes nothing.
-- ARGV  2 topic, 3 when the first step begins, 4 how long each is in ms, 5 how many
-- Reply per step: how many
local set, from, step, reply = key('delayed', ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
local function time(n) return string.format('%d', from + n * step) end
for n = 1, tonumber(ARGV[5]) do reply[n] = redis.call('ZCOUNT', set, time(n - 1), '(' .. time(n)) end
return reply
