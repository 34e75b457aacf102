-- ready -> reserved, for up to `count` jobs of each want.
-- ARGV  2 nonce (13 hex digits), then per want: topic, count, TTR in ms ('' is each job's own)
-- Reply now (rounded up), then per want: how many are left ready, {id, record, attempt, due, TTR, …}
--       e.g. {1763690060000, 0, {'7', '1 1763690000000 …', 1, 1763690060000, 60000}}
-- The n-th job of the reply has the nonce and n - 1 in three hex digits as its reservation, and is
-- reserved until now + TTR.
local nonce, given, bytes, reply = ARGV[2], 0, 0, { NOW_UP }

-- The next attempt's record, its number, and its TTR. A pool record's header ends as it does; but
-- the topic is that of the set, in which the job stands.
local function attempt_of(record, earlier, topic, reservation, due, ttr)
  local own, rest = string.match(record, '^1 %d+ %x+ (%d+) (%d+ %d+ %S+) %S+\n')
  -- An unreadable record goes out too: the store, which checks it anyway, sets it aside.
  if not own then own, rest = '60000', '1 1209600000 -' end
  local a = parse_attempt(earlier) or { attempt = 0, error = '' }
  local number = a.attempt + 1
  ttr = ttr or tonumber(own)
  -- The error text is appended, not formatted: it may have any bytes.
  local text = string.format('%d %s %d 0 %d %s %s\n', number, reservation, due, ttr, rest, topic)
    .. a.error
  return text, number, ttr
end

-- Reserves up to `count` jobs; answers whether there may be more.
local function step(topic, count, ttr, jobs)
  local ready = key('ready', topic)
  local found = redis.call('ZRANGE', ready, 0, count - 1, 'WITHSCORES')
  if #found == 0 then return false end
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  local records = redis.call('HMGET', POOL, unpack(ids))
  local earlier = redis.call('HMGET', ATTEMPTS, unpack(ids))

  local attempts, deadlines, nearest = {}, {}, nil
  for n, id in ipairs(ids) do
    if records[n] then
      local due, reservation = tonumber(found[n * 2]), nonce .. string.format('%03x', given)
      local text, number, own = attempt_of(records[n], earlier[n], topic, reservation, due, ttr)
      given, bytes = given + 1, bytes + #records[n]
      attempts[#attempts + 1], attempts[#attempts + 2] = id, text
      deadlines[#deadlines + 1], deadlines[#deadlines + 2] = NOW_UP + own, id
      nearest = math.min(nearest or math.huge, NOW_UP + own)
      local last = #jobs
      jobs[last + 1], jobs[last + 2], jobs[last + 3] = id, records[n], number
      jobs[last + 4], jobs[last + 5] = due, own
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
  return #ids == count
end

-- Large bodies must not make one reply that keeps Redis busy for seconds: after 8 MiB the rest of
-- the call gets nothing, sees that there is more, and asks again.
local function pop(topic, count, ttr)
  local jobs, more = {}, true
  -- A reservation has three digits for its number.
  count = math.min(count, 4096 - given)
  while more and count > 0 and bytes <= 8388608 do
    local size = math.min(count, 100)
    more = step(topic, size, ttr, jobs)
    count = count - size
  end
  return redis.call('ZCARD', key('ready', topic)), jobs
end

-- Ids that are ready without any record: the pool is on another node, where an interrupted move of
-- the slot has left it. Nothing is thrown away.
if redis.call('EXISTS', POOL) == 0 then
  for i = 3, #ARGV, 3 do
    if redis.call('EXISTS', key('ready', ARGV[i])) == 1 then
      return redis.error_reply('TRYAGAIN the pool of this bucket is not here')
    end
  end
end

for i = 3, #ARGV, 3 do
  local n = #reply
  reply[n + 1], reply[n + 2] = pop(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
end
return reply
