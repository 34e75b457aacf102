-- popped -> gone.
-- ARGV  per job: id, reservation ('' goes by id alone)
-- Reply per job: its topic, or refusal
local ids, reply, finished, of_topic = {}, {}, {}, {}
for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
for n, id in ipairs(ids) do
  local a, refusal
  if finished[id] then
    refusal = NOT_FOUND
  else
    a, refusal = judge(texts[n], id, ARGV[2 * n + 1])
  end
  if a then
    finished[id] = true
    finished[#finished + 1] = id
    local same = of_topic[a.topic] or {}
    same[#same + 1], of_topic[a.topic] = id, same
  end
  reply[n] = a and a.topic or refusal
end
for topic, same in pairs(of_topic) do
  -- Nearly always all are still reserved.
  if redis.call('ZREM', key('reserved', topic), unpack(same)) < #same then
    for _, id in ipairs(same) do take(topic, id) end
  end
  leave(topic)
end
if #finished > 0 then
  redis.call('HDEL', ATTEMPTS, unpack(finished))
  redis.call('HDEL', POOL, unpack(finished))
end
return reply
