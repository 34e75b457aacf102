-- absent -> the state that the job says; a living id is refused. The due time is not judged: a timer does.
-- ARGV  per job: id, topic, state, its time in that set, record, long body (''), attempt record ('' before the first pop)
-- Reply per job: 0, or refusal
local reply = {}
for i = 2, #ARGV, 7 do
  local id, topic, state, at = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local body, attempt = ARGV[i + 5], ARGV[i + 6]
  place(state, topic, id, at)
  if body ~= '' then note('body', id, body) end
  if attempt ~= '' then note('attempt', id, attempt) else note('no_attempt', id) end
  prove()
  -- These change nothing, and throw if they are forbidden or Redis is full.
  redis.call('ZADD', BUCKET, 'XX', 0, '')
  redis.call('HDEL', ATTEMPTS, '')
  if redis.call('HSETNX', POOL, id, ARGV[i + 4]) == 1 then
    name(topic)
    local sound, problem = pcall(commit, true)
    if not sound then
      redis.call('HDEL', POOL, id)
      error(problem, 0)
    end
    reply[#reply + 1] = 0
  else
    nothing()
    reply[#reply + 1] = EXISTS
  end
end
return reply
