-- dead -> ready now, attempts from zero, for the jobs of a topic that died first.
-- ARGV  2 topic, 3 limit
-- Reply number of jobs, and the highest priority among them

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/revive"

-- Gathers the jobs whose policies a kick must read. Returns the others, as members of the ready set and as fields of the
-- attempt records, and the highest priority of all.
local function gather_special(topic, found)
  local members, marks, highest = {}, {}, 0
  for n = 1, #found, 2 do
    local id, last = found[n], #members
    if tonumber(found[n + 1]) % 1 == 0 then
      members[last + 1], members[last + 2] = NOW, id
      -- Only the mark of its history is left of an attempt record: a dead job has had an attempt.
      marks[last + 1], marks[last + 2] = id, 'h'
      highest = math.max(highest, STANDARD_PRIORITY)
    else
      local text = redis.call('HGET', ATTEMPTS, id)
      local rules = revive(id, text, (find_job(id, text) or {}).rules, topic)
      highest = math.max(highest, rules and rules.priority or STANDARD_PRIORITY)
    end
  end
  return members, marks, highest
end

local function transition()
  -- unpack takes a few thousand values.
  local topic, limit = ARGV[2], math.min(tonumber(ARGV[3]), 1000)
  local set = key('dead', topic)
  local found = redis.call('ZRANGE', set, 0, limit - 1, 'WITHSCORES')
  redis.call('ZCARD', key('ready', topic))
  if #found == 0 then return { 0, 0 } end
  local members, marks, highest = gather_special(topic, found)
  prove_types()
  -- These fail before anything is changed if they are forbidden. HSET has no form that changes nothing: see commit.lua.
  redis.call('ZCARD', ENDS)
  redis.call('ZREM', BUCKET, '')
  redis.call('ZADD', BUCKET, 'XX', 0, '')
  redis.call('ZREMRANGEBYRANK', set, 1, 0)
  if #members < #found then commit(true) end
  if #members > 0 then
    redis.call('HSET', ATTEMPTS, unpack(marks))
    has_written = true
    redis.call('ZADD', key('ready', topic), unpack(members))
  end
  redis.call('ZREMRANGEBYRANK', set, 0, #found / 2 - 1)
  if redis.pcall('EXISTS', set) == 0 then redis.call('ZREM', ENDS, 'dead:' .. topic) end
  return { #found / 2, highest }
end

--- @include "shared/each_bucket"
