-- popped -> gone, or finished if its policy keeps it.
-- ARGV  for each job: id, reservation ('' acts by id alone); a result follows the reservation as ' <checksum> <JSON>'
-- Reply for each job: its topic, or refusal

--- @include "shared/prelude"
--- @include "shared/tools"
--- @include "shared/room"
--- @include "finish/leave"
--- @include "finish/keep"

-- Captures the mark of a history, the reservation, and the values that RULES captures: length, policy and topic.
local HEADER = '^%d+ %d+(h?)s? (%S+) %d+ %d+ %d+ ' .. RULES

local function transition()
  ask_for_room('^%x* ') -- a result to keep
  local ids, reply, finished, by_topic, long, kept, with_history, expiring = {}, {}, {}, {}, {}, {}, {}, {}
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
    elseif given == '' and string.find(texts[n], '^%d+ 0h? ') then
      refusal = NEVER_POPPED -- it has expired
    elseif result and not keeps(policy) then
      refusal = RESULT_NOT_KEPT
    elseif keeps(policy) and keep(id, texts[n], topic, result) then
      kept[id] = true
    else
      finished[id] = true
      finished[#finished + 1] = id
      local same_topic = by_topic[topic] or {}
      same_topic[#same_topic + 1], by_topic[topic] = id, same_topic
      if (number(length) or math.huge) > MAX_INLINE_BODY then long[#long + 1] = id end
      if mark ~= '' then with_history[#with_history + 1] = id end
      if expires(policy, topic) then expiring[#expiring + 1] = { topic, id } end
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
  for _, job in ipairs(expiring) do redis.call('ZREM', key('expiring', job[1]), job[2]) end
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
