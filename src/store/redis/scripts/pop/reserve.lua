-- Reserves jobs of one topic.

-- Writes the attempt records, and adds the jobs to the reserved set.
local function write_reservations(topic, attempts, deadlines, earliest_end, histories)
  -- If the ACL forbids one of these commands, the script fails before any job has moved: the first command removes
  -- nothing, and the second one at worst gives the timer a deadline that is too early.
  redis.call('ZREMRANGEBYRANK', key('ready', topic), 1, 0)
  redis.call('ZADD', ENDS, 'LT', earliest_end, 'reserved:' .. topic)
  redis.call('HSET', ATTEMPTS, unpack(attempts))
  has_written = true
  redis.call('ZADD', key('reserved', topic), unpack(deadlines))
  -- Errors are ignored: see shared/history.lua.
  if #histories > 0 then redis.pcall('HSET', TAG .. 'history', unpack(histories)) end
end

-- Reserves up to `count` jobs and appends them to `jobs`; returns whether there may be more.
local function reserve(topic, count, ttr, consumer, jobs)
  local ready = key('ready', topic)
  -- Jobs that have expired stay in the set, before the others.
  local first = passed.count
  local found = redis.call('ZRANGE', ready, first, first + count - 1, 'WITHSCORES')
  is_drained = #found < 2 * count
  if #found == 0 then return false end
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  local records = redis.call('HMGET', POOL, unpack(ids))
  -- There are ready ids but no pool: an interrupted move of the slot has left the pool on another node. The ids stay.
  if not records[1] and redis.call('EXISTS', POOL) == 0 then
    pool_is_elsewhere, is_drained = true, false
    return false
  end
  local earlier = redis.call('HMGET', ATTEMPTS, unpack(ids))

  local attempts, deadlines, histories, earliest_end, done, has_stray_ids = {}, {}, {}, math.huge, #ids, false
  -- Redis accepts a score as text faster than as a number. Many jobs have the same TTR, so the text is reused.
  local last_ttr, deadline
  for n, id in ipairs(ids) do
    local record, rules, own_ttr
    if bytes <= MAX_REPLY_BYTES and records[n] then record, rules, own_ttr = read(id, records[n], topic, found[n * 2]) end
    if bytes > MAX_REPLY_BYTES or body_is_elsewhere then
      done = n - 1
      break
    end
    if record then
      local due, reservation = time_of('ready', found[n * 2]), nonce .. string.format('%03x', next_number)
      local attempt = earlier[n] and tools().parse_attempt(earlier[n])
      local attempt_count, held_for = (attempt and attempt.count or 0) + 1, ttr or own_ttr
      local sum = attempt_checksum(attempt_count, high, middle, next_number, due, 0, held_for)
      next_number, bytes = next_number + 1, bytes + #record
      local last, job, mark, snoozed = #attempts, #jobs, '', attempt and attempt.snoozed or ''
      if earlier[n] and tools().may_have_history(earlier[n]) then mark = 'h' end
      if consumer then
        mark, histories[last + 1] = 'h', id
        histories[last + 2] = tools().with_consumer(id, earlier[n], reservation, consumer)
      end
      -- The error is appended and not formatted: it may contain any byte.
      attempts[last + 1], attempts[last + 2] = id,
        string.format('%d %d%s%s %s %d 0 %d ', sum, attempt_count, mark, snoozed, reservation, due, held_for) ..
        rules .. '\n' .. (attempt and attempt.error or '')
      if held_for ~= last_ttr then
        last_ttr, deadline = held_for, string.format('%d', NOW_UP + held_for)
      end
      deadlines[last + 1], deadlines[last + 2] = deadline, id
      if NOW_UP + held_for < earliest_end then earliest_end = NOW_UP + held_for end
      jobs[job + 1], jobs[job + 2], jobs[job + 3] = id, record, attempt_count
      jobs[job + 4], jobs[job + 5] = due, held_for
    elseif not passed[id] then
      has_stray_ids = true
    end
  end

  is_drained = is_drained and done == #ids
  if #attempts > 0 then
    if passed.count > 0 then redis.call('ZREM', ready, '') end -- for the same reason as in write_reservations
    write_reservations(topic, attempts, deadlines, earliest_end, histories)
  end
  if passed.count == 0 then
    if done > 0 then redis.call('ZREMRANGEBYRANK', ready, 0, done - 1) end
  else
    local others = {}
    for n = 1, done do
      if not passed[ids[n]] then others[#others + 1] = ids[n] end
    end
    if #others > 0 then redis.call('ZREM', ready, unpack(others)) end
  end
  -- The set no longer has the ids without a record, so the topic may have no jobs now.
  if has_stray_ids then
    tools().topic_shrinks(topic)
    tools().commit()
  end
  return done == count
end
