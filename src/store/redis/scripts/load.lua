-- Loads jobs for decisions (decisions/loaded.rs). A job is looked for in the topics that its records name, then, if the
-- caller asks for it, in all topics.
-- ARGV  letters: 's' to search all topics, 'b' to load bodies; then ids
-- Reply: the time in microseconds; for each job one text, which the caller reads faster than its parts: the header of the
--        pool record; a line with the job's state, its score, its topic ('' each if no set has the job) and the lengths of
--        its attempt record and its history; both of these, and the body. Of a finished job only its record. Ends early
--        once it has many bytes of bodies: the other jobs are to be loaded again.

--- @include "shared/basics"

-- The first line of a record.
local function first_line(record)
  local last = string.find(record, '\n', 1, true)
  return last and string.sub(record, 1, last - 1) or record
end

-- The state of a job in a topic, and its score; nil if no set of the topic has it.
local function look_up(id, topic)
  for _, state in ipairs(topic and STATES or {}) do
    local score = redis.call('ZSCORE', key(state, topic), id)
    if score then return state, score end
  end
end

-- The topic, state and score of a job, looked for in the topics that its records name.
local function find(id, attempt, header)
  for _, line in ipairs({ first_line(attempt), header }) do
    local topic = string.match(line, '^.* (%S+)$')
    local state, score = look_up(id, topic)
    if state then return topic, state, score end
  end
end

-- The same in all topics.
local function search(id)
  for _, topic in ipairs(redis.call('ZRANGE', TOPICS, 0, 499)) do
    local state, score = look_up(id, topic)
    if state then return topic, state, score end
  end
end

-- A call ends early once its replies have this many bytes of bodies.
local MAX_BODY_BYTES = 524288

local function transition()
  local searches, with_bodies = string.find(ARGV[2], 's'), string.find(ARGV[2], 'b')
  shared.bytes = shared.bytes or 0
  local now = CALL[1] == '' and redis.call('TIME')
  local reply, ids = { now and now[1] * 1000000 + now[2] or CALL[1] * 1000 }, { unpack(ARGV, 3) }
  if #ids == 0 then return reply end
  local attempts, records = redis.call('HMGET', ATTEMPTS, unpack(ids)), redis.call('HMGET', POOL, unpack(ids))
  for n, id in ipairs(ids) do
    if shared.bytes > MAX_BODY_BYTES then break end
    local attempt, record = attempts[n] or '', records[n] or ''
    if string.byte(record) ~= 54 then -- '6', a finished job's
      local header, history, body, topic, state, score = first_line(record), nil, '', nil, nil, nil
      if searches then
        topic, state, score = search(id)
      else
        topic, state, score = find(id, attempt, header)
      end
      if attempt ~= '' and not string.find(attempt, '^%d+ %d+s? ') then history = redis.pcall('HGET', TAG .. 'history', id) end
      if type(history) ~= 'string' then history = '' end
      if with_bodies then
        body = string.sub(record, #header + 2)
        if body == '' then body = redis.call('HGET', BODIES, id) or '' end
        shared.bytes = shared.bytes + #body
      end
      record = header .. '\n' .. (state or '') .. ' ' .. (score or '') .. ' ' .. (topic or '') .. ' ' .. #attempt .. ' ' ..
        #history .. '\n' .. attempt .. history .. body
    end
    reply[n + 1] = record
  end
  return reply
end

--- @include "shared/each_bucket"
