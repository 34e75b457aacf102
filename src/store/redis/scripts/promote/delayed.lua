-- delayed -> ready. Records are not read: a score has all that is needed.

-- Whether a score is a time in whole milliseconds: the score of a delayed job of priority 4 is. It becomes the ready
-- score unchanged, without a conversion; Redis accepts a score as text faster than as a number from Lua.
local function is_plain_time(score)
  return #score <= 14 and not string.find(score, '%D')
end

-- The score in the ready set of a job that had the given score in the delayed set.
local function ready_score(score)
  if is_plain_time(score) then return score end
  local time = time_of('delayed', score)
  if not is_score('delayed', score) then return time end
  local above_default = math.floor((score - time) * 16)
  if above_default > 5 then above_default = above_default - 10 end
  return time - above_default * PRIORITY_STEP
end

-- The highest priority of jobs that become ready, and the scores and members to add to the topic's ready set.
local function promote_delayed(topic, found)
  local members, highest, has_plain = {}, 0, false
  for n = 1, #found, 2 do
    local score = ready_score(found[n + 1])
    members[n], members[n + 1] = score, found[n]
    if score == found[n + 1] then has_plain = true else highest = math.max(highest, priority_of_ready(score)) end
  end
  if has_plain then highest = math.max(highest, STANDARD_PRIORITY) end
  redis.call('ZCARD', key('ready', topic))
  return highest, members
end
