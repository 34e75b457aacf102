-- Compares sets with the entries of the bucket for them, and mends these entries if requested.
-- ARGV  2 '1' to mend, '' to report only; then for each set: state, topic
-- Reply for each set: 0 it is sound, 1 the bucket does not list the topic, 2 the timer does not know the set, or has too
--       late a time for it, 3 a score of the set or the timer's time is not a time, 4 the key is not a sorted set

--- @include "shared/prelude"
--- @include "shared/jobs"

-- Finds up to 1,000 jobs of the set whose score is not a time. Returns `score`, their new score, and the id of each.
local function without_time(set, state, score)
  local lowest, end_of_range = score_range(state)
  local found = {}
  local ranges = { { '-inf', string.format('(%.0f', lowest) }, { string.format('%.0f', end_of_range), '+inf' } }
  for _, range in ipairs(ranges) do
    for _, id in ipairs(redis.call('ZRANGE', set, range[1], range[2], 'BYSCORE', 'LIMIT', 0, 500)) do
      found[#found + 1], found[#found + 2] = score, id
    end
  end
  return found
end

local function examine(state, topic, mend)
  local set, set_name = key(state, topic), state .. ':' .. topic
  local head = redis.pcall('ZRANGE', set, 0, 0, 'WITHSCORES')
  if head.err then return 4 end
  if not head[1] then return 0 end
  -- A job without a time becomes due now; a dead or finished one is kept for the default retention of dead jobs.
  local is_over = state == 'dead' or state == 'finished'
  local odd = without_time(set, state, is_over and NOW + DEFAULT_POLICY.retention or NOW)
  if mend and #odd > 0 then
    redis.call('ZADD', set, unpack(odd))
    head = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  end
  local deadlines = state == 'delayed' and BUCKET or ENDS
  local is_named, deadline = redis.call('ZSCORE', TOPICS, topic), redis.call('ZSCORE', deadlines, set_name)
  local is_late = state ~= 'ready' and (not deadline or tonumber(deadline) > tonumber(head[2]))
  local is_odd = #odd > 0 or deadline and not is_score('delayed', deadline)
  if mend and not is_named then redis.call('ZADD', TOPICS, 0, topic) end
  if mend and (is_late or is_odd and state ~= 'ready') then redis.call('ZADD', deadlines, time_of(state, head[2]), set_name) end
  return is_late and 2 or not is_named and 1 or is_odd and 3 or 0
end

local function transition()
  local mend, reply = ARGV[2] == '1', {}
  for i = 3, #ARGV, 2 do reply[#reply + 1] = examine(ARGV[i], ARGV[i + 1], mend) end
  return reply
end

--- @include "shared/each_bucket"
