-- popped -> gone.
-- ARGV  per job: id, reservation ('' goes by id alone)
-- Reply per job: its topic, or refusal
local reply, left = {}, {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local a, refusal = held(id, ARGV[i + 1])
  if a then
    take(a.topic, id)
    left[a.topic] = true
    redis.call('HDEL', ATTEMPTS, id)
    redis.call('HDEL', POOL, id)
  end
  reply[#reply + 1] = a and a.topic or refusal
end
for topic in pairs(left) do leave(topic) end
return reply
