-- delayed, dead -> ready now; a dead job's attempts start from zero.
-- ARGV  per job: id
-- Reply per job: its topic, or refusal
local reply = {}
each_job(1, function(id, text)
  local job = find(id, text)
  local topic, state
  if job then topic, state = locate(id, job.topic) end
  if not state then
    reply[#reply + 1] = NOT_FOUND
  elseif state == 'reserved' then
    reply[#reply + 1] = RESERVED
  else
    if state ~= 'ready' then
      take(state, topic, id)
      if state == 'dead' then note('no_attempt', id) end
      place('ready', topic, id, NOW)
    end
    reply[#reply + 1] = topic
  end
end)
return reply
