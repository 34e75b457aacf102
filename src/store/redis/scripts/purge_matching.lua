-- any -> gone, for the jobs of one topic and state that match a filter.
-- ARGV  see shared/matching.lua
-- Reply number of jobs, and the position of the last job examined if there may be more (add_position)

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"

local function transition()
  local topic, state = ARGV[2], ARGV[3]
  -- unpack takes a few thousand values.
  local found, _, last, score = select_jobs(math.min(tonumber(ARGV[4]), 1000))
  local may_expire = redis.call('EXISTS', key('expiring', topic)) == 1
  for n = 1, #found, 2 do
    remove_job(found[n], state, topic, true)
    if may_expire then leave_set('expiring', topic, found[n]) end
  end
  commit()
  local reply = { #found / 2 }
  add_position(reply, state, last, score)
  return reply
end

--- @include "shared/each_bucket"
