-- delayed, dead -> ready now, for the jobs of a topic that match a filter; the attempts of dead jobs start from zero. Leaves
-- the dead jobs whose policies decide more than that (see kick_dead.lua).
-- ARGV  see shared/matching.lua
-- Reply number of jobs made ready, the highest priority among them, the position of the last job examined if there may be
--       more (add_position), and the ids of the jobs left

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/matching"
--- @include "promote/delayed"

local function transition()
  local topic, state, count, highest, left = ARGV[2], ARGV[3], 0, 0, {}
  -- unpack takes a few thousand values.
  local found, _, last, last_score = select_jobs(math.min(tonumber(ARGV[4]), 1000))
  for n = 1, #found, 2 do
    local id, score, priority = found[n], found[n + 1], STANDARD_PRIORITY
    if state == 'dead' and tonumber(score) % 1 ~= 0 then
      left[#left + 1] = id
    else
      if state == 'dead' then
        save('attempt', id, 'h')
      else
        -- It stays in the set of jobs that expire.
        priority = priority_of_ready(tonumber(ready_score(score)))
      end
      join_set('ready', topic, id, NOW, { priority = priority })
      leave_set(state, topic, id)
      count, highest = count + 1, math.max(highest, priority)
    end
  end
  commit()
  local reply = { count, highest }
  add_position(reply, state, last, last_score)
  for _, id in ipairs(left) do reply[#reply + 1] = id end
  return reply
end

--- @include "shared/each_bucket"
