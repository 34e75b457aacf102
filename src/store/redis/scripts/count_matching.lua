-- Counts the jobs of one topic and state that match a filter; writes nothing.
-- ARGV  see shared/matching.lua
-- Reply number of jobs, and the position of the last job examined if there may be more (add_position)

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"

-- Counts up to `limit` jobs by their ranks, without reading them. Returns their number and, if more jobs follow, id and
-- score of the last one.
local function count_in_order(limit)
  local set, count, last = key(ARGV[3], ARGV[2]), 0, nil
  local first = rank_behind(set, ARGV[5], ARGV[6])
  for _, range in ipairs(ranges_of_times(set, ARGV[3], ARGV[7], ARGV[8])) do
    local low = math.max(range[1], first)
    local taken = math.min(math.max(0, range[2] - low), limit - count)
    if taken > 0 then count, last = count + taken, low + taken - 1 end
    if low + taken < range[2] then return count, unpack(redis.call('ZRANGE', set, last, last, 'WITHSCORES')) end
  end
  return count
end

local function transition()
  local limit, count, last, score = tonumber(ARGV[4]), nil, nil, nil
  if ARGV[9] == nil then
    count, last, score = count_in_order(limit)
  else
    local found, _, last_examined, last_score = select_jobs(limit)
    count, last, score = #found / 2, last_examined, last_score
  end
  local reply = { count }
  add_position(reply, ARGV[3], last, score)
  return reply
end

--- @include "shared/each_bucket"
