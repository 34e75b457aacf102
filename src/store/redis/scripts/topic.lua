-- Reads the figures of one topic; writes nothing.
-- ARGV  2 topic
-- Reply now, then the figures that peek.lua appends

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/peek"

local function transition()
  local reply = { NOW }
  peek(ARGV[2], reply)
  return reply
end

--- @include "shared/each_bucket"
