-- Looks for jobs that half a transition has left in no set of their topic, or in several.
-- ARGV  2 cursor ('' at the beginning), 3 about how many jobs
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

-- Searching all topics takes long. A step does it for few jobs, and takes the others for lost.
local MAX_SEARCHED = 10

local function transition()
  local cursor, found = unpack(redis.call('HSCAN', POOL, ARGV[2] == '' and '0' or ARGV[2], 'COUNT', ARGV[3]))
  local reply, ids, searched = { cursor, 0 }, {}, 0
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  if #ids == 0 then return reply end
  local attempts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    local attempt, header, is_finished = attempts[n] or '', header_of(found[2 * n])
    -- If a key has another type, nothing tells whether the job is in it.
    local is_known, states = pcall(states_in, id, named_topics(attempt, header, is_finished))
    if not is_known then
      -- It stays as it is.
    elseif #states == 0 and attempt == '' and not is_finished then
      searched = searched + 1
      if searched > MAX_SEARCHED or not find_anywhere(id) then reply[2] = reply[2] + 1 end
    elseif #states ~= 1 or (states[1] == 'finished') ~= is_finished then
      reply[#reply + 1] = id
    end
  end
  return reply
end

--- @include "shared/each_bucket"
