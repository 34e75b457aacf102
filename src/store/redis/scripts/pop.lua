-- ready -> reserved, for up to `count` jobs of each want.
-- ARGV  2 nonce (13 hex digits), then per want: topic, count, TTR in ms ('' is each job's own)
-- Reply now (rounded up), then per want: how many are left ready, {id, record, attempt, due, TTR, …}
--       e.g. {1763690060000, 0, {'7', '4 019aa424e480b532 …', 1, 1763690060000, 60000}}
-- The n-th job of the reply has the nonce and 2047 + n in three hex digits as its reservation, and is
-- reserved until now + TTR. A record that cannot be read goes out too: the store, which checks
-- all of it anyway, sets the job aside.
local nonce, high, middle, given, drained
-- The pool is on another node; or a long body of the topic in hand is, and of any topic of the bucket.
local away, stuck, was_stuck
-- So many bytes of bodies the call has given so far, of all its buckets.
local bytes = 0
local HEADER = '^[34] %x+ ()' .. RULES .. '()'
local LONGEST_TTR = 86400000
-- The number of the first reservation of a call (Reservation::TAGGED), and of the one behind the last.
local FIRST, END = 2048, 4096
-- That of policies that leave it out (see records.lua).
local STANDARD_TTR = 60000

-- The TTR of a policy, also of one in the form of schema 4.
local function own_ttr(policy)
  return tonumber(string.match(policy, '^(%d+),') or string.match(';' .. policy, ';t=(%d+)')) or STANDARD_TTR
end

-- The record with its body, the job's rules and its own TTR; nil if the job does not belong here.
local function read(id, record, topic)
  local first, length, policy, named, last = string.match(record, HEADER)
  local rules = first and string.sub(record, first, last - 2)
  if named ~= topic then
    local sound = rules and tools().parse_rules(id, rules)
    if not sound then return record, tools().rules_aside(id, topic).text, STANDARD_TTR end
    -- The id stands here by mistake: its job is of another topic, and perhaps in no set there.
    if not tools().state_of(named, id) then
      tools().place('ready', named, id, NOW)
      tools().name(named)
    end
    return nil
  end
  if tonumber(length) > INLINE then
    local body = redis.call('HGET', BODIES, id)
    if body then
      record = record .. body
    elseif redis.call('EXISTS', BODIES) == 0 and tools().parse_rules(id, rules) then
      stuck, was_stuck = true, true
    end
  end
  local own = policy == '' and STANDARD_TTR or own_ttr(policy)
  return record, rules, own < LONGEST_TTR and own or LONGEST_TTR
end

-- Reserves up to `count` jobs; answers whether there may be more.
local function step(topic, count, ttr, jobs)
  local ready = key('ready', topic)
  local found = redis.call('ZRANGE', ready, 0, count - 1, 'WITHSCORES')
  drained = #found < 2 * count
  if #found == 0 then return false end
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  local records = redis.call('HMGET', POOL, unpack(ids))
  -- Ids that are ready without any record: the pool is on another node, where an interrupted move
  -- of the slot has left it. Nothing is thrown away.
  if not records[1] and redis.call('EXISTS', POOL) == 0 then
    away, drained = true, false
    return false
  end
  local earlier = redis.call('HMGET', ATTEMPTS, unpack(ids))

  local attempts, deadlines, nearest_end, done, gone = {}, {}, math.huge, #ids, false
  -- Many jobs are held for as long; Redis takes texts faster than numbers.
  local held_before, deadline
  for n, id in ipairs(ids) do
    if bytes > ENOUGH then
      done = n - 1
      break
    end
    local record, rules, own
    if records[n] then record, rules, own = read(id, records[n], topic) end
    if stuck then
      done = n - 1
      break
    end
    if record then
      local due, reservation = time_of(found[n * 2]), nonce .. string.format('%03x', given)
      local a = earlier[n] and tools().parse_attempt(earlier[n])
      local count_now, held_for = (a and a.attempt or 0) + 1, ttr or own
      local sum = check(count_now, high, middle, given, due, 0, held_for)
      given, bytes = given + 1, bytes + #record
      local last, job = #attempts, #jobs
      -- The error text is appended, not formatted: it may have any bytes.
      attempts[last + 1], attempts[last + 2] = id,
        string.format('%d %d %s %d 0 %d ', sum, count_now, reservation, due, held_for) .. rules .. '\n' ..
        (a and a.error or '')
      if held_for ~= held_before then
        held_before, deadline = held_for, string.format('%d', NOW_UP + held_for)
      end
      deadlines[last + 1], deadlines[last + 2] = deadline, id
      if NOW_UP + held_for < nearest_end then nearest_end = NOW_UP + held_for end
      jobs[job + 1], jobs[job + 2], jobs[job + 3] = id, record, count_now
      jobs[job + 4], jobs[job + 5] = due, held_for
    else
      gone = true
    end
  end

  drained = drained and done == #ids
  if #attempts > 0 then
    -- Each of these throws if it is forbidden, and no job has moved by then: the first changes nothing, and the
    -- timer may know of a deadline too early.
    redis.call('ZREMRANGEBYRANK', ready, 1, 0)
    redis.call('ZADD', BUCKET, 'LT', nearest_end, 'reserved:' .. topic)
    redis.call('HSET', ATTEMPTS, unpack(attempts))
    redis.call('ZADD', key('reserved', topic), unpack(deadlines))
  end
  if done > 0 then redis.call('ZREMRANGEBYRANK', ready, 0, done - 1) end
  -- Ids without a record have gone from the set; perhaps they were the last of the topic.
  if gone then
    tools().leaves(topic)
    tools().commit()
  end
  return done == count
end

-- Large bodies must not keep Redis busy: after so many bytes the rest of the call gets nothing,
-- sees that there is more, and asks again.
local function pop(topic, count, ttr)
  local jobs, more = {}, true
  drained, stuck = false, false
  count = math.min(count, END - given)
  while more and count > 0 and bytes <= ENOUGH and not (away or stuck) do
    local size = math.min(count, 100)
    more = step(topic, size, ttr, jobs)
    count = count - size
  end
  return drained and 0 or redis.call('ZCARD', key('ready', topic)), jobs
end

local ELSEWHERE = 'TRYAGAIN the pool of this bucket is not here'

local function transition()
  nonce, given, away, was_stuck, drained = ARGV[2], FIRST, false, false, false
  high, middle = tonumber(string.sub(nonce, 1, 7), 16), tonumber(string.sub(nonce, 8), 16)
  -- Nothing throws between two writes: what jobs go to is known to be of the right type.
  redis.call('ZCARD', BUCKET)
  for i = 3, #ARGV, 3 do
    if #ARGV > 5 then redis.call('ZCARD', key('ready', ARGV[i])) end
    redis.call('ZCARD', key('reserved', ARGV[i]))
  end

  local reply = { NOW_UP }
  for i = 3, #ARGV, 3 do
    local n = #reply
    reply[n + 1], reply[n + 2] = pop(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  end
  if (away or was_stuck) and given == FIRST then return redis.error_reply(ELSEWHERE) end
  return reply
end
