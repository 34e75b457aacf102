-- absent -> the state that the job says; a living id is refused. The due time is not judged: a timer does.
-- ARGV  per job: id, topic, state, its time in that set, record, attempt record ('' before the first pop)
-- Reply per job: 0, or refusal
local reply = {}
for i = 2, #ARGV, 6 do
  local id, topic, state, at = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if redis.call('HSETNX', POOL, id, ARGV[i + 4]) == 1 then
    if ARGV[i + 5] == '' then
      redis.call('HDEL', ATTEMPTS, id)
    else
      redis.call('HSET', ATTEMPTS, id, ARGV[i + 5])
    end
    place(state, topic, id, at)
    redis.call('ZADD', TOPICS, 0, topic)
    reply[#reply + 1] = 0
  else
    reply[#reply + 1] = EXISTS
  end
end
return reply
