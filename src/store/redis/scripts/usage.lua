-- Counts the jobs of the bucket; writes nothing.
-- Reply number of jobs

--- @include "shared/prelude"
--- @include "shared/jobs"

local function transition()
  return { redis.call('HLEN', POOL) }
end

--- @include "shared/each_bucket"
