-- Writes the edits of jobs that are still what was loaded (decisions/swap.rs): their records are the same, byte for byte,
-- and the job is in the same set with the same score.
-- ARGV  'new' if any edit of the call has a new body, else ''; for each job, whose id is not repeated:
--       1 id; as loaded: 2 attempt record and 3 header of the pool record ('' if there was none), 4 state ('' if no set has
--       the job), 5 its topic, 6 its score
--       7 the new attempt record; 8 history ('' keeps it); 9 header ('' keeps the record); 10 its body: 'keep', 'new',
--       'short' in the record instead of a long one, or 'long'; 11 the new body
--       12 state, 13 topic, 14 score and 15 time of its next set; 16 its score if it is ready because the time has passed
--       17 the time at which it expires; '-' if it no longer does, '' if it never did
-- Reply for each job: 0 it has changed, 1 done, 2 done, and it is ready already, 3 no room for the body, 4 the topic to which
--       it moves cannot take it

--- @include "shared/basics"

local STRIDE, CHANGED, DONE, READY, FULL, UNUSABLE = 17, 0, 1, 2, 3, 4

-- Whether Redis has no room, asked before the first write of the call: it then refuses even a command that changes
-- nothing, if the command may need memory.
local is_full = false
if CALL[2] == 'new' then
  local answer = redis.pcall('ZADD', KEYS[3], 'XX', 0, '')
  is_full = type(answer) == 'table' and string.find(error_text(answer), '^OOM') ~= nil
end

local function is_unchanged(i, attempt, record)
  local id, old_attempt, header, state, topic, score = unpack(ARGV, i, i + 5)
  local last = record and string.find(record, '\n', 1, true)
  if last then record = string.sub(record, 1, last - 1) end
  if old_attempt ~= (attempt or '') or header ~= (record or '') then return false end
  if state ~= '' then return redis.call('ZSCORE', key(state, topic), id) == score end
  for _, any in ipairs(STATES) do
    if redis.call('ZSCORE', key(any, topic), id) then return false end
  end
  return true
end

local function transition()
  local ids, reply = {}, {}
  for i = 3, #ARGV, STRIDE do ids[#ids + 1] = ARGV[i] end
  if #ids == 0 then return reply end
  local attempts, records = redis.call('HMGET', ATTEMPTS, unpack(ids)), redis.call('HMGET', POOL, unpack(ids))
  -- What is written: ids and texts by hash; ids whose long bodies go; by set scores and ids that join it, ids that leave it,
  -- and its earliest deadline; topics that gain and lose jobs.
  local new_attempts, new_records, new_bodies, old_bodies, histories = {}, {}, {}, {}, {}
  local joining, leaving, deadlines, gaining, losing = {}, {}, {}, {}, {}

  for n, id in ipairs(ids) do
    local i = 3 + (n - 1) * STRIDE
    local old_state, old_topic = ARGV[i + 3], ARGV[i + 4]
    local history, header, how, body = unpack(ARGV, i + 7, i + 10)
    local state, topic, score, time, ready_score, expires_at = unpack(ARGV, i + 11, i + 16)
    if not is_unchanged(i, attempts[n], records[n]) then
      reply[n] = CHANGED
    elseif is_full and how ~= 'keep' then
      reply[n] = FULL
    elseif topic ~= old_topic and type(redis.pcall('ZCARD', key(state, topic))) ~= 'number' then
      reply[n] = UNUSABLE
    else
      reply[n] = DONE
      if state == 'delayed' then
        local now = CALL[1] == '' and redis.call('TIME')
        now = now and now[1] * 1000 + math.floor(now[2] / 1000) or tonumber(CALL[1])
        if tonumber(time) <= now then state, score, reply[n] = 'ready', ready_score, READY end
      end
      local last = #new_attempts
      new_attempts[last + 1], new_attempts[last + 2] = id, ARGV[i + 6]
      if history ~= '' then histories[#histories + 1], histories[#histories + 2] = id, history end
      if header ~= '' then
        if how == 'long' then
          new_bodies[#new_bodies + 1], new_bodies[#new_bodies + 2] = id, body
          body = ''
        elseif how == 'short' then
          old_bodies[#old_bodies + 1] = id
        elseif how == 'keep' then
          body = string.match(records[n], '\n(.*)$') or ''
        end
        new_records[#new_records + 1], new_records[#new_records + 2] = id, header .. '\n' .. body
      end
      local set, old_set = state .. ':' .. topic, old_state .. ':' .. old_topic
      local members = joining[set] or {}
      members[#members + 1], members[#members + 2], joining[set] = score, id, members
      if state ~= 'ready' then deadlines[set] = math.min(deadlines[set] or math.huge, tonumber(time)) end
      if old_state ~= '' and old_set ~= set then
        local left = leaving[old_set] or {}
        left[#left + 1], leaving[old_set] = id, left
      end
      if expires_at == '-' then
        local expiring = 'expiring:' .. old_topic
        -- A key of the wrong type stays as it is, because jobs may stay in the set of jobs that expire.
        if type(redis.pcall('ZCARD', TAG .. expiring)) == 'number' then
          local left = leaving[expiring] or {}
          left[#left + 1], leaving[expiring] = id, left
        end
      elseif expires_at ~= '' then
        local expiring = 'expiring:' .. topic
        members = joining[expiring] or {}
        members[#members + 1], members[#members + 2], joining[expiring] = expires_at, id, members
        deadlines[expiring] = math.min(deadlines[expiring] or math.huge, tonumber(expires_at))
      end
      if topic ~= old_topic then gaining[topic], losing[old_topic] = true, true end
    end
  end
  if #new_attempts == 0 then return reply end

  -- Commands that change nothing fail here if a key has another type, or if this user lacks a right.
  for set in pairs(joining) do
    redis.call('ZREM', TAG .. set, '')
    redis.call('ZADD', TAG .. set, 'XX', 0, '')
  end
  for set in pairs(deadlines) do
    redis.call('ZREM', string.find(set, '^delayed:') and BUCKET or ENDS, '')
  end
  if #new_bodies + #old_bodies > 0 then redis.call('HDEL', BODIES, '') end

  redis.call('HSET', ATTEMPTS, unpack(new_attempts))
  has_written = true
  if #new_records > 0 then redis.call('HSET', POOL, unpack(new_records)) end
  if #new_bodies > 0 then redis.call('HSET', BODIES, unpack(new_bodies)) end
  for set, time in pairs(deadlines) do
    redis.call('ZADD', string.find(set, '^delayed:') and BUCKET or ENDS, 'LT', time, set)
  end
  for set, members in pairs(joining) do redis.call('ZADD', TAG .. set, unpack(members)) end
  for set, left in pairs(leaving) do redis.call('ZREM', TAG .. set, unpack(left)) end
  if #old_bodies > 0 then redis.call('HDEL', BODIES, unpack(old_bodies)) end
  -- A missing entry of a history is better than a transition that fails.
  if #histories > 0 then redis.pcall('HSET', TAG .. 'history', unpack(histories)) end
  -- A deadline may be years ahead, and the name of an empty set must not remain until then.
  for set in pairs(leaving) do
    if not string.find(set, '^re') and redis.pcall('EXISTS', TAG .. set) == 0 then
      redis.call('ZREM', string.find(set, '^delayed:') and BUCKET or ENDS, set)
    end
  end
  for topic in pairs(gaining) do redis.pcall('ZADD', TOPICS, 0, topic) end
  for topic in pairs(losing) do
    local sets = {}
    for n, state in ipairs(STATES) do sets[n] = key(state, topic) end
    if redis.pcall('EXISTS', unpack(sets)) == 0 then redis.pcall('ZREM', TOPICS, topic) end
  end
  return reply
end

--- @include "shared/each_bucket"
