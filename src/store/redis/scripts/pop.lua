-- ready -> reserved, for up to `count` jobs of each want.
-- ARGV  2 nonce (13 hex digits), then per want: topic, count, TTR in ms ('' is each job's own)
-- Reply per want: how many are left ready, {id, record, attempt, due, reservation, until, TTR, …}
--       e.g. {0, {'7', '1 1763690000000 …', 1, 1763690060000, '5f…001', 1763690120000, 60000}}
local nonce, given, bytes, reply = ARGV[2], 0, 0, {}

-- Reserves one job: answers its attempt, and appends it to `jobs`.
local function reserve(id, due, record, earlier, ttr, jobs)
  -- An unreadable record goes out too: the store, which checks it anyway, sets it aside.
  local a = fresh(record) or {
    max = 1, backoff = '-', ttr = 60000, retention = 1209600000, topic = '-', died = 0, attempt = 0, error = ''
  }
  if earlier then a.attempt, a.error = earlier.attempt, earlier.error end
  a.attempt, a.due, a.ttr = a.attempt + 1, due, ttr or a.ttr
  a.reservation = nonce .. string.format('%03x', given)
  given = given + 1
  for _, value in ipairs({ id, record, a.attempt, due, a.reservation, NOW_UP + a.ttr, a.ttr }) do
    jobs[#jobs + 1] = value
  end
  return a
end

local function pop(topic, count, ttr)
  local ready, jobs = key('ready', topic), {}
  -- unpack takes a few thousand values, and a reservation has three digits for its number.
  count = math.min(count, 1000, 4096 - given)
  -- Large bodies must not make one reply that keeps Redis busy for seconds: who comes later in
  -- the call gets nothing, sees that there is more, and asks again.
  if count < 1 or bytes > 8388608 then return redis.call('ZCARD', ready), jobs end
  local found = redis.call('ZRANGE', ready, 0, count - 1, 'WITHSCORES')
  if #found == 0 then return 0, jobs end
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  local records = redis.call('HMGET', POOL, unpack(ids))
  local earlier = redis.call('HMGET', ATTEMPTS, unpack(ids))

  local attempts, deadlines, nearest = {}, {}, nil
  for n, id in ipairs(ids) do
    if records[n] then
      bytes = bytes + #records[n]
      local a = reserve(id, tonumber(found[n * 2]), records[n], parse_attempt(earlier[n]), ttr, jobs)
      a.topic = topic
      attempts[#attempts + 1], attempts[#attempts + 2] = id, attempt_text(a)
      deadlines[#deadlines + 1], deadlines[#deadlines + 2] = NOW_UP + a.ttr, id
      nearest = math.min(nearest or math.huge, NOW_UP + a.ttr)
    end
  end

  redis.call('ZREMRANGEBYRANK', ready, 0, #ids - 1)
  if nearest then
    redis.call('HSET', ATTEMPTS, unpack(attempts))
    redis.call('ZADD', key('reserved', topic), unpack(deadlines))
    redis.call('ZADD', BUCKET, 'LT', nearest, 'reserved:' .. topic)
  end
  -- Ids without a record have gone from the set; perhaps they were the last of the topic.
  if #attempts < 2 * #ids then leave(topic) end
  return redis.call('ZCARD', ready), jobs
end

for i = 3, #ARGV, 3 do
  local n = #reply
  reply[n + 1], reply[n + 2] = pop(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
end
return reply
