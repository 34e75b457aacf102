-- popped -> gone. Leaves other finishes to the core (decisions/): those of jobs that are finished, that no consumer has
-- popped, or whose policy keeps them.
-- ARGV  for each job: id, reservation ('' acts by id alone)
-- Reply for each job: its topic, or refusal; for a job left to the core, the time in microseconds and its texts (loaded.lua)

--- @include "shared/prelude"
--- @include "shared/tools"
--- @include "finish/leave"

-- Captures the mark of a history, the reservation, and the values that RULES captures: length, policy and topic.
local HEADER = '^%d+ %d+(h?)s? (%S+) %d+ %d+ %d+ ' .. RULES

-- Whether a policy may keep the finished job.
local function keeps(policy)
  return policy ~= '' and string.find(';' .. policy, ';f=', 1, true)
end

-- Whether the job with this policy is in the set of jobs that expire. If the key has another type, the job stays there.
local function expires(policy, topic)
  return policy ~= '' and string.find(policy, 'e=', 1, true) and type(redis.pcall('ZCARD', key('expiring', topic))) == 'number'
end

-- The reply about a job that is left to the core. Only here, the functions of loaded.lua are needed.
local function left(id, attempt)
--- @include "shared/loaded"
  local record = redis.call('HGET', POOL, id)
  if not (record or attempt) then return NOT_FOUND end
  return { CLOCK_MICROS, (loaded(id, attempt, record, find_named)) }
end

local function transition()
  local ids, reply, finished, by_topic, long, with_history, expiring = {}, {}, {}, {}, {}, {}, {}
  for i = 2, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    -- The record's checksum need not be verified: a damaged reservation differs from the given one, and the sets of a
    -- wrong topic do not have the job.
    local mark, held_by, length, policy, topic = string.match(texts[n] or '', HEADER)
    local given = ARGV[2 * n + 1]
    if finished[id] then
      reply[n] = NOT_FOUND
    elseif held_by and given ~= '' and given ~= held_by then
      reply[n] = RESERVATION_LOST
    elseif not held_by or given == '' and string.find(texts[n], '^%d+ 0h? ') or keeps(policy) then
      reply[n] = left(id, texts[n])
    else
      finished[id] = true
      finished[#finished + 1] = id
      local same_topic = by_topic[topic] or {}
      same_topic[#same_topic + 1], by_topic[topic] = id, same_topic
      if (number(length) or math.huge) > MAX_INLINE_BODY then long[#long + 1] = id end
      if mark ~= '' then with_history[#with_history + 1] = id end
      if expires(policy, topic) then expiring[#expiring + 1] = { topic, id } end
      reply[n] = topic
    end
  end
  -- These commands change nothing, but fail if a key has the wrong type, so that nothing fails between two writes.
  -- With a single topic, ZREM is the first write and fails by itself.
  if #long > 0 then redis.call('HEXISTS', BODIES, '') end
  if #finished > 0 then redis.call('HDEL', ATTEMPTS, '') end
  if next(by_topic, (next(by_topic))) then
    for topic in pairs(by_topic) do redis.call('ZCARD', key('reserved', topic)) end
  end

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
