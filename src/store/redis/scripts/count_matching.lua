-- Counts the jobs of one topic and state that match a filter; writes nothing.
-- ARGV  see shared/matching.lua
-- Reply number of jobs, and the position of the last job examined if there may be more (add_position)

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"

local function transition()
  local found, _, last, score = select_jobs(tonumber(ARGV[4]))
  local reply = { #found / 2 }
  add_position(reply, ARGV[3], last, score)
  return reply
end

--- @include "shared/each_bucket"
