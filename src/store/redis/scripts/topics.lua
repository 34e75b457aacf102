-- Reads the figures of topics in the order of their names; writes nothing.
-- ARGV  2 first and 3 last name in the form of ZRANGE BYLEX, 4 limit
-- Reply now, then for each topic: name, and the figures that peek.lua appends

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/peek"

local function transition()
  local reply = { NOW }
  for _, topic in ipairs(redis.call('ZRANGE', TOPICS, ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])) do
    reply[#reply + 1] = topic
    peek(topic, reply)
  end
  return reply
end

--- @include "shared/each_bucket"
