-- any -> gone.
-- ARGV  per job: id
-- Reply per job: the state it was in, or refusal
local reply = {}
each_job(1, function(id, text)
  local job = find(id, text)
  local topic, state
  if job then
    topic, state = locate(id, job.topic)
    -- Also what is in no set or cannot be read: deleting is the way to be rid of that.
    remove(id, state, topic)
  end
  reply[#reply + 1] = STATE_CODE[state] or NOT_FOUND
end)
return reply
