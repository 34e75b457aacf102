-- Writes the edits of jobs that are still what was loaded (decisions/swap.rs): their records are the same, byte for byte,
-- and the job is in the same set with the same score.
-- ARGV  'new' if any edit of the call needs room, else ''; for each job, whose id is not repeated:
--       1 id; as loaded: 2 attempt record and 3 header of the pool record ('' if there was none)
--       4 words, each '' if it does not apply: state, topic and score as loaded; state ('-' if the job is gone), topic and
--         score of its next set, and the time of its deadline there; its score if that time has passed, so that it is ready
--         ('' if it stays delayed even then); the time at which it expires, '-' if it no longer does; '+' if the edit needs
--         room
--       5 the new attempt record, 6 history, 7 header of the pool record: '' keeps it, '-' erases it (all of the pool record);
--         8 'n' and the new body, 's' if it is in the record instead of a long one, 'l' if it is long; '' keeps the body
-- Reply for each job: 0 it has changed, 1 done, 2 done, and it is ready already, 3 no room, 4 the topic to which
--       it moves cannot take it

--- @include "shared/basics"
--- @include "shared/deadlines"

local STRIDE, CHANGED, DONE, READY, FULL, UNUSABLE = 8, 0, 1, 2, 3, 4
local WORDS = '^(%S*) (%S*) (%S*) (%S+) (%S+) (%S+) (%S+) (%S*) (%S*) (%S*)$'

-- Whether Redis has no room, asked before the first write of the call: it then refuses even a command that changes
-- nothing, if the command may need memory.
local is_full = false
if CALL[2] == 'new' then
  local answer = redis.pcall('ZADD', KEYS[3], 'XX', 0, '')
  is_full = type(answer) == 'table' and string.find(error_text(answer), '^OOM') ~= nil
end

local function is_in_same_set(id, state, topic, score)
  if state ~= '' then return redis.call('ZSCORE', key(state, topic), id) == score end
  for _, any in ipairs(STATES) do
    if redis.call('ZSCORE', key(any, topic), id) then return false end
  end
  return true
end

local function write(command, place, values)
  if #values == 0 then return end
  redis.call(command, place, unpack(values))
  has_written = true
end

local function transition()
  local ids, reply = {}, {}
  for i = 3, #ARGV, STRIDE do ids[#ids + 1] = ARGV[i] end
  if #ids == 0 then return reply end
  local attempts, records = redis.call('HMGET', ATTEMPTS, unpack(ids)), redis.call('HMGET', POOL, unpack(ids))
  -- What is written: ids and texts by hash; ids whose long bodies go; by set scores and ids that join it, ids that leave it,
  -- and its earliest deadline; topics that gain and lose jobs.
  local new_attempts, old_attempts, new_records, old_records, new_bodies, old_bodies = {}, {}, {}, {}, {}, {}
  local new_histories, old_histories = {}, {}
  local joining, leaving, deadlines, gaining, losing = {}, {}, {}, {}, {}

  for n, id in ipairs(ids) do
    local i = 3 + (n - 1) * STRIDE
    local attempt, record, old_header = attempts[n] or '', records[n] or '', ARGV[i + 2]
    local old_state, old_topic, old_score, state, topic, score, time, ready_score, expires_at, grows =
      string.match(ARGV[i + 3], WORDS)
    local history, header, how = ARGV[i + 5], ARGV[i + 6], string.sub(ARGV[i + 7], 1, 1)
    -- The header of a finished job begins with bytes of any value.
    local last = string.find(record, '\n', string.byte(record) == 54 and 20 or 1, true) or #record + 1
    if attempt ~= ARGV[i + 1] or string.sub(record, 1, last - 1) ~= old_header or
      not is_in_same_set(id, old_state, old_topic, old_score) then
      reply[n] = CHANGED
    elseif is_full and grows ~= '' then
      reply[n] = FULL
    elseif topic ~= old_topic and type(redis.pcall('ZCARD', key(state, topic))) ~= 'number' then
      reply[n] = UNUSABLE
    else
      reply[n] = DONE
      if state == 'delayed' and ready_score ~= '' then
        local now = CALL[1] == '' and redis.call('TIME')
        now = now and now[1] * 1000 + math.floor(now[2] / 1000) or tonumber(CALL[1])
        if tonumber(time) <= now then state, score, reply[n] = 'ready', ready_score, READY end
      end
      if ARGV[i + 4] == '-' then
        old_attempts[#old_attempts + 1] = id
      elseif ARGV[i + 4] ~= '' then
        new_attempts[#new_attempts + 1], new_attempts[#new_attempts + 2] = id, ARGV[i + 4]
      end
      if history == '-' then
        old_histories[#old_histories + 1] = id
      elseif history ~= '' then
        new_histories[#new_histories + 1], new_histories[#new_histories + 2] = id, history
      end
      if header == '-' then
        old_records[#old_records + 1], old_bodies[#old_bodies + 1] = id, id
      elseif header ~= '' then
        local body = how == '' and string.sub(record, last + 1) or string.sub(ARGV[i + 7], 2)
        if how == 'l' then
          new_bodies[#new_bodies + 1], new_bodies[#new_bodies + 2] = id, body
          body = ''
        elseif how == 's' then
          old_bodies[#old_bodies + 1] = id
        end
        new_records[#new_records + 1], new_records[#new_records + 2] = id, header .. '\n' .. body
      end
      local set, old_set = state .. ':' .. topic, old_state .. ':' .. old_topic
      local members = joining[set] or {}
      if state == '-' then
        losing[old_topic] = true
      else
        members[#members + 1], members[#members + 2], joining[set] = score, id, members
      end
      if state ~= 'ready' and state ~= '-' then deadlines[set] = math.min(deadlines[set] or math.huge, tonumber(time)) end
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
      if topic ~= old_topic then losing[old_topic] = true end
      if topic ~= old_topic or old_state == '' then gaining[topic] = true end
    end
  end
  if not (next(joining) or next(losing)) then return reply end

  -- Commands that change nothing fail here if a key has another type, or if this user lacks a right.
  for set in pairs(joining) do
    redis.call('ZREM', TAG .. set, '')
    redis.call('ZADD', TAG .. set, 'XX', 0, '')
  end
  for set in pairs(deadlines) do redis.call('ZREM', deadlines_of(set), '') end
  for set in pairs(leaving) do
    if not string.find(set, '^re') then redis.call('ZREM', deadlines_of(set), '') end
  end
  if #new_bodies + #old_bodies > 0 then redis.call('HDEL', BODIES, '') end
  if #old_attempts + #old_records > 0 then redis.call('HDEL', ATTEMPTS, '') end

  -- A record that is written before its body would stop the pops of its topic if Redis applied only half of the script.
  write('HSET', BODIES, new_bodies)
  write('HSET', ATTEMPTS, new_attempts)
  write('HSET', POOL, new_records)
  for set, time in pairs(deadlines) do
    redis.call('ZADD', deadlines_of(set), 'LT', time, set)
  end
  for set, members in pairs(joining) do write('ZADD', TAG .. set, members) end
  for set, left in pairs(leaving) do write('ZREM', TAG .. set, left) end
  write('HDEL', ATTEMPTS, old_attempts)
  write('HDEL', POOL, old_records)
  write('HDEL', BODIES, old_bodies)
  -- A missing entry of a history is better than a transition that fails.
  if #new_histories > 0 then redis.pcall('HSET', TAG .. 'history', unpack(new_histories)) end
  if #old_histories > 0 then redis.pcall('HDEL', TAG .. 'history', unpack(old_histories)) end
  -- A deadline may be years ahead, and the name of an empty set must not remain until then.
  for set in pairs(leaving) do
    if not string.find(set, '^re') and redis.pcall('EXISTS', TAG .. set) == 0 then
      redis.call('ZREM', deadlines_of(set), set)
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
