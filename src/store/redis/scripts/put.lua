-- absent -> delayed or ready; a living id is refused, kept or replaced.
-- ARGV  per job: id, topic, schedule (see due_time), rest of its record, 'reject' | 'keep' | 'replace'
-- Reply per job: 0 created | 1 kept | 2 replaced, state, due time, the topic if kept ('')
--       or refusal, 0, 0, ''; e.g. {0, 1, 1763690060000, '',  -2, 0, 0, ''}
local reply, topics, replaced = {}, {}, false

local function answer(how, state, due, kept)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = how, STATE_CODE[state] or 0, due
  reply[n + 4] = kept or ''
end

local function conflict(id, topic, due, record, on_conflict)
  local living = find(id)
  if on_conflict == 'reject' or not living then return answer(EXISTS, '', 0) end
  local state, score = state_of(living.topic, id)
  -- A job in no set is not alive, whatever its record says: it is replaced.
  if on_conflict == 'keep' and state then
    local held_or_dead = state == 'reserved' or state == 'dead'
    return answer(1, state, held_or_dead and living.due or score, living.topic)
  end
  if state == 'reserved' then return answer(RESERVED, '', 0) end
  take(living.topic, id)
  redis.call('HDEL', ATTEMPTS, id)
  redis.call('HSET', POOL, id, record)
  topics[topic], replaced = true, true
  answer(2, place_due(topic, id, due), due)
  leave(living.topic)
end

for i = 2, #ARGV, 5 do
  local id, topic, rest, on_conflict = ARGV[i], ARGV[i + 1], ARGV[i + 3], ARGV[i + 4]
  local due = due_time(ARGV[i + 2])
  local record = '1 ' .. string.format('%d', NOW) .. ' ' .. rest
  if not due then
    answer(DUE_TOO_FAR, '', 0)
  elseif redis.call('HSETNX', POOL, id, record) == 1 then
    topics[topic] = true
    answer(0, place_due(topic, id, due), due)
  else
    conflict(id, topic, due, record, on_conflict)
  end
end
for topic in pairs(topics) do
  redis.call('ZADD', TOPICS, 0, topic)
  -- A later job of the batch may have replaced the one that brought this topic.
  if replaced then leave(topic) end
end
return reply
