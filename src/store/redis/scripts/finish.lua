-- popped -> gone.
-- ARGV  per job: id, reservation ('' goes by id alone)
-- Reply per job: its topic, or refusal

local HEADER = '^%d+ %d+ (%S+) %d+ %d+ %d+ ' .. RULES

-- Removes those that are not reserved any more from where they are.
local function take_others(topic, ids, missing)
  local tools, rest = tools(), {}
  for _, id in ipairs(ids) do
    local state = tools.state_of(topic, id)
    if state then
      tools.take(state, topic, id)
      missing = missing - 1
    else
      rest[#rest + 1] = id
    end
  end
  -- A topic that is damaged is not where the job is.
  for _, id in ipairs(missing > 0 and rest or {}) do
    local there, state = tools.search(id)
    tools.take(state, there, id)
    if there then tools.leaves(there) end
  end
  tools.commit()
end

local function transition()
  local ids, reply, finished, of_topic, long = {}, {}, {}, {}, {}
  for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    -- No field is believed that could do harm: a reservation that was not given matches none, and
    -- a wrong topic does not have the job.
    local own, length, _, topic = string.match(texts[n] or '', HEADER)
    local given, refusal = ARGV[2 * n + 1], nil
    if finished[id] then
      refusal = NOT_FOUND
    elseif not own then
      topic, refusal = nil, select(2, tools().judge(nil, id, given))
    elseif given ~= '' and given ~= own then
      refusal = RESERVATION_LOST
    else
      finished[id] = true
      finished[#finished + 1] = id
      local same = of_topic[topic] or {}
      same[#same + 1], of_topic[topic] = id, same
      if (number(length) or math.huge) > INLINE then long[#long + 1] = id end
    end
    reply[n] = refusal or topic
  end
  -- With one topic, its ZREM is the first to change something, and would itself throw.
  if #long > 0 then redis.call('HEXISTS', BODIES, '') end
  if #finished > 0 then redis.call('HDEL', ATTEMPTS, '') end
  if next(of_topic, (next(of_topic))) then
    for topic in pairs(of_topic) do redis.call('ZCARD', key('reserved', topic)) end
  end

  for topic, same in pairs(of_topic) do
    -- Nearly always all are still reserved. A set that is none of these has no job of ours.
    local missing = #same - redis.call('ZREM', key('reserved', topic), unpack(same))
    if missing > 0 then pcall(take_others, topic, same, missing) end
    leave(topic)
  end
  if #finished > 0 then
    redis.call('HDEL', ATTEMPTS, unpack(finished))
    redis.call('HDEL', POOL, unpack(finished))
  end
  if #long > 0 then redis.call('HDEL', BODIES, unpack(long)) end
  return reply
end
