-- any -> gone, for the first jobs of one topic and state.
-- ARGV  2 topic, 3 state, 4 limit
-- Reply number of jobs

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  -- unpack takes a few thousand values.
  local topic, state, limit = ARGV[2], ARGV[3], math.min(tonumber(ARGV[4]), 1000)
  local ids = redis.call('ZRANGE', key(state, topic), 0, limit - 1)
  local may_expire = redis.call('EXISTS', key('expiring', topic)) == 1
  for _, id in ipairs(ids) do
    remove_job(id, state, topic, true)
    if may_expire then leave_set('expiring', topic, id) end
  end
  commit()
  return { #ids }
end

--- @include "shared/each_bucket"
