-- absent -> the state of the given job; an id that exists is refused. Overdue jobs are left to the timer.
-- ARGV  for each job: id, topic, state, its time in that set, record, long body (''), attempt record ('' before the
--       first pop), history ('')
-- Reply for each job: 0, or refusal

--- @include "shared/prelude"
--- @include "shared/jobs"

local function restore(id, topic, state, time, record, body, attempt, history)
  join_set(state, topic, id, time, parse_rules(id, rules_text(record)))
  if body ~= '' then save('body', id, body) end
  if attempt ~= '' then save('attempt', id, attempt) else erase('attempt', id) end
  if history ~= '' then save('history', id, history) end
  prove_types()
  -- These change nothing, and fail if they are forbidden or Redis is full.
  redis.call('ZCARD', ENDS)
  redis.call('ZADD', BUCKET, 'XX', 0, '')
  redis.call('HDEL', ATTEMPTS, '')
  if redis.call('HSETNX', POOL, id, record) == 0 then
    discard_gathered()
    return EXISTS
  end
  register_topic(topic)
  local sound, problem = pcall(commit, true)
  if not sound then
    redis.call('HDEL', POOL, id)
    error(problem, 0)
  end
  return 0
end

local function transition()
  local reply = {}
  for i = 2, #ARGV, 8 do
    reply[#reply + 1] = restore(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), unpack(ARGV, i + 4, i + 7))
  end
  return reply
end

--- @include "shared/each_bucket"
