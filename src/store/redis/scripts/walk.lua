-- Looks for jobs that half a transition has left in no set of their topic, or in several.
-- ARGV  2 cursor, 3 about how many jobs
-- Reply: the next cursor ('0' at the end); how many jobs are in no set and were never popped, so that nothing tells when
--        they are due; the ids of the others that were found

--- @include "shared/basics"
--- @include "shared/loaded"

-- The states of a job in the sets of these topics, one after the other.
local function states_in(id, topics)
  local found = {}
  for _, topic in ipairs(topics) do
    for _, state in ipairs(STATES) do
      if redis.call('ZSCORE', key(state, topic), id) then found[#found + 1] = state end
    end
  end
  return found
end

local function transition()
  local cursor, found = unpack(redis.call('HSCAN', POOL, ARGV[2], 'COUNT', ARGV[3]))
  local reply, ids = { cursor, 0 }, {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  if #ids == 0 then return reply end
  local attempts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    local attempt, header, is_finished = attempts[n] or '', header_of(found[2 * n])
    local states = states_in(id, named_topics(attempt, header, is_finished))
    if #states == 0 and attempt == '' and not is_finished then
      if not find_anywhere(id) then reply[2] = reply[2] + 1 end
    elseif #states ~= 1 or (states[1] == 'finished') ~= is_finished then
      reply[#reply + 1] = id
    end
  end
  return reply
end

--- @include "shared/each_bucket"
