-- Jobs whose TTR has ended, and jobs that expire: loaded for the core, which decides on them (decisions/). They stay where
-- they are, so if the caller fails, the next call finds them again.

-- For each such job of the bucket: id, whether it expires, its texts (loaded.lua).
local overdue

-- Fails if the core could not place a job of this topic.
local function check_sets(topic)
  for _, state in ipairs({ 'ready', 'delayed', 'dead', 'expiring' }) do redis.call('ZCARD', key(state, topic)) end
  -- There are ids but no pool: an interrupted move of the slot has left the pool on another node.
  if redis.call('EXISTS', POOL) == 0 then error({ err = 'TRYAGAIN the pool of this bucket is not here' }) end
end

-- How long a finished job is kept from now, if half a script has left it in the set of reserved jobs; nil if its record is
-- damaged. Only here, these functions are needed.
local function retention_of_finished(id, record)
--- @include "shared/policy"
--- @include "shared/rules"
--- @include "shared/ending"
  local rules = parse_finished(id, record)
  return rules and rules.finished_retention
end

-- Loads jobs from a set of reserved jobs, or of jobs that expire. Returns the ids that leave the set, because it should not
-- have them; the ids that are looked at again later; and ids and times of finished jobs. Only here, the functions of
-- loaded.lua are needed.
local function load_overdue(set_state, topic, found)
--- @include "shared/loaded"
  local ids, scores, left, postponed, finished = {}, {}, {}, {}, {}
  for n = 1, #found, 2 do ids[#ids + 1], scores[#scores + 1] = found[n], found[n + 1] end
  check_sets(topic)
  local attempts, records = redis.call('HMGET', ATTEMPTS, unpack(ids)), redis.call('HMGET', POOL, unpack(ids))
  local is_expiry = set_state == 'expiring'
  for n, id in ipairs(ids) do
    local attempt, record, state, score = attempts[n] or '', records[n] or '', set_state, scores[n]
    if is_expiry then state, score = look_up(id, topic) end
    local is_empty = attempt == '' and (record == '' or string.byte(record) == 10) -- a line feed
    local kept_for = string.byte(record) == 54 and retention_of_finished(id, record) -- '6'
    if is_empty or is_expiry and state ~= 'delayed' and state ~= 'ready' then
      left[#left + 1] = id
    elseif kept_for then
      left[#left + 1] = id
      if not is_expiry and not redis.call('ZSCORE', key('finished', topic), id) then
        finished[#finished + 1], finished[#finished + 2] = NOW + kept_for, id
      end
    elseif string.find(id, '[^%w._:-]') then
      postponed[#postponed + 1] = id -- another program has written it
    else
      local text = loaded(id, attempt, record, function() return topic, state, score end)
      local last = #overdue
      overdue[last + 1], overdue[last + 2], overdue[last + 3] = id, is_expiry and 1 or 0, text
    end
  end
  return left, postponed, finished
end
