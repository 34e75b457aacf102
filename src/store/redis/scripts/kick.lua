-- delayed, dead -> ready now; a dead job's attempts start from zero.
-- ARGV  per job: id
-- Reply per job: its topic, or refusal
local reply = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local a = find(id)
  local state = a and state_of(a.topic, id)
  if not state then
    reply[#reply + 1] = NOT_FOUND
  elseif state == 'reserved' then
    reply[#reply + 1] = RESERVED
  else
    if state ~= 'ready' then
      take(a.topic, id)
      if state == 'dead' then redis.call('HDEL', ATTEMPTS, id) end
      place('ready', a.topic, id, NOW)
    end
    reply[#reply + 1] = a.topic
  end
end
return reply
