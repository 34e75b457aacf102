-- any -> gone.
-- ARGV  per job: id
-- Reply per job: the state it was in, or refusal
local reply = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local a = find(id)
  local state = a and take(a.topic, id)
  -- Also what is in no set or cannot be read: deleting is the way to be rid of that.
  redis.call('HDEL', ATTEMPTS, id)
  redis.call('HDEL', POOL, id)
  if a then leave(a.topic) end
  reply[#reply + 1] = STATE_CODE[state] or NOT_FOUND
end
return reply
