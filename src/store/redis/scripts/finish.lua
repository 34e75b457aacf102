-- popped -> gone, or finished if its policy keeps it.
-- ARGV  for each job: id, reservation ('' acts by id alone); a result follows the reservation as ' <checksum> <JSON>'
-- Reply for each job: its topic, or refusal

--- @include "shared/prelude"
--- @include "shared/tools"

-- Captures the mark of a history, the reservation, and the length, policy and topic as RULES does.
local HEADER = '^%d+ %d+(h?) (%S+) %d+ %d+ %d+ ' .. RULES

-- Removes jobs from the sets that they are in; `missing` of them are not in the reserved set of the topic.
local function leave_other_sets(topic, ids, missing)
  local tools, rest = tools(), {}
  for _, id in ipairs(ids) do
    local state = tools.state_of(topic, id)
    if state then
      tools.leave_set(state, topic, id)
      missing = missing - 1
    else
      rest[#rest + 1] = id
    end
  end
  -- A damaged record may name a topic that does not have the job.
  for _, id in ipairs(missing > 0 and rest or {}) do
    local found, state = tools.search_topics(id)
    tools.leave_set(state, found, id)
    if found then tools.topic_shrinks(found) end
  end
  tools.commit()
end

-- Whether Redis has no room: a command that changes nothing and may need memory shows it, unless the call has written.
local function is_full()
  return type(redis.pcall('ZADD', BUCKET, 'XX', 0, '')) == 'table'
end

-- Whether a policy keeps the finished job.
local function keeps(policy)
  return policy ~= '' and string.find(';' .. policy, ';f=[1-9]') ~= nil
end

-- Gathers the writes that keep a finished job. Returns false if a record is damaged, or names a topic that does not
-- have the job: the job then goes.
local function keep(id, text, topic, result, is_full)
  local tools = tools()
  local attempt = tools.parse_attempt(text)
  local rules = attempt and tools.parse_rules(id, attempt.rules)
  local state, time = tools.state_of(topic, id)
  if not (rules and state) then return false end
  if state == 'delayed' or state == 'ready' then attempt.due = time end
  tools.end_attempt(id, text, attempt, state, time, 'f', NOW, '')
  local outcome = result and is_full and 'r' or 'f'
  local job = { rules = rules, count = attempt.count, due = attempt.due, reservation = attempt.reservation }
  return tools.keep_finished(id, job, state, topic, rules.policy, outcome, not is_full and result or nil)
end

-- The topic of a job that this reservation has finished already: the answer was lost.
local function finished_topic(id, reservation)
  local job = reservation ~= '' and tools().find_job(id, nil)
  return job and job.ended and job.ended.outcome ~= 'd' and job.ended.reservation == reservation and job.topic or nil
end

local function transition()
  local ids, reply, finished, by_topic, long, kept, with_history = {}, {}, {}, {}, {}, {}, {}
  for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    -- The record's checksum need not be verified: a damaged reservation differs from the given one, and the sets of a
    -- wrong topic do not have the job.
    local mark, held_by, length, policy, topic = string.match(texts[n] or '', HEADER)
    local given, refusal, result = ARGV[2 * n + 1], nil, nil
    if #given > 16 or string.byte(given) == 32 then given, result = string.match(given, '^(%x*) (.*)$') end
    if finished[id] then
      refusal = NOT_FOUND
    elseif kept[id] then
      if given ~= held_by then refusal = FINISHED end
    elseif not held_by then
      topic, refusal = nil, select(2, tools().authorize(nil, id, given))
      if refusal == FINISHED then topic = finished_topic(id, given) end
      if topic then refusal = nil end
    elseif given ~= '' and given ~= held_by then
      refusal = RESERVATION_LOST
    elseif result and not keeps(policy) then
      refusal = RESULT_NOT_KEPT
    elseif keeps(policy) and keep(id, texts[n], topic, result, result and is_full()) then
      kept[id] = true
    else
      finished[id] = true
      finished[#finished + 1] = id
      local same_topic = by_topic[topic] or {}
      same_topic[#same_topic + 1], by_topic[topic] = id, same_topic
      if (number(length) or math.huge) > MAX_INLINE_BODY then long[#long + 1] = id end
      if mark ~= '' then with_history[#with_history + 1] = id end
    end
    reply[n] = refusal or topic
  end
  -- These commands change nothing, but fail if a key has the wrong type, so that nothing fails between two writes.
  -- With a single topic and no kept job, ZREM is the first write and fails by itself.
  if #long > 0 then redis.call('HEXISTS', BODIES, '') end
  if #finished > 0 then redis.call('HDEL', ATTEMPTS, '') end
  if next(kept) or next(by_topic, (next(by_topic))) then
    for topic in pairs(by_topic) do redis.call('ZCARD', key('reserved', topic)) end
  end
  if next(kept) then tools().commit() end

  for topic, same_topic in pairs(by_topic) do
    -- Nearly always all jobs are still reserved. Errors are ignored: a key of a wrong type has no jobs.
    local missing = #same_topic - redis.call('ZREM', key('reserved', topic), unpack(same_topic))
    if missing > 0 then pcall(leave_other_sets, topic, same_topic, missing) end
    forget_if_empty(topic)
  end
  if #finished > 0 then
    redis.call('HDEL', ATTEMPTS, unpack(finished))
    redis.call('HDEL', POOL, unpack(finished))
  end
  if #long > 0 then redis.call('HDEL', BODIES, unpack(long)) end
  if #with_history > 0 then redis.pcall('HDEL', TAG .. 'history', unpack(with_history)) end
  return reply
end

local function find_job(id, text) return tools().find_job(id, text) end
local function locate_job(id, topic) return tools().locate_job(id, topic) end
--- @include "shared/guard"
--- @include "shared/each_bucket"
