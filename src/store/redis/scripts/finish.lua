-- popped -> gone.
-- ARGV  per job: id, reservation ('' goes by id alone)
-- Reply per job: 0, or refusal
local reply = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local a, refusal = held(id, ARGV[i + 1])
  if a then
    take(a.topic, id)
    redis.call('HDEL', ATTEMPTS, id)
    redis.call('HDEL', POOL, id)
  end
  reply[#reply + 1] = refusal or 0
end
return reply
